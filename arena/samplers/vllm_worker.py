"""An extension of vLLM's workers. It imports nothing of vLLM, which mixes it into its worker class."""

from __future__ import annotations

from typing import Any


class WorkerExtension:
    """What vLLM's worker does not offer by itself; mixed into it (``worker_extension_cls``)."""

    model_runner: Any
    reload_weights: Any

    def exchange_weights(self, folder: str) -> None:
        """Load the weights of a folder in Hugging Face layout in place of the present ones.

        vLLM's ``reload_weights`` skips an output layer that is tied to the embeddings, because a checkpoint has no
        weights of it. On a CPU such a layer also has a packed copy of its weights, which is made again here.
        """
        self.reload_weights(weights_path=folder)
        for layer in self.model_runner.get_model().modules():
            if hasattr(layer, "cpu_linear") and layer.weight.numel():
                layer.quant_method.process_weights_after_loading(layer)

    def zero_keys_and_values(self) -> None:
        """Overwrite the whole cache of keys and values by zeros: NaN in it outlasts the requests that wrote it."""
        for cache in self.model_runner.kv_caches:
            cache.zero_()
