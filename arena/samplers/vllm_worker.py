"""What vLLM's workers do for us beside their own work. Imports nothing of vLLM, which mixes it into its own class."""

from __future__ import annotations

from typing import Any


class Exchange:
    """Mixed into vLLM's worker (``worker_extension_cls``)."""

    model_runner: Any
    reload_weights: Any

    def exchange_weights(self, folder: str) -> None:
        """Load the weights of a folder in Hugging Face layout in place of the present ones.

        vLLM's own method passes over an output layer that is tied to the embeddings, because a checkpoint holds no
        weights of it. On a processor such a layer has a packed copy beside its weights, which is made anew here.
        """
        self.reload_weights(weights_path=folder)
        for layer in self.model_runner.get_model().modules():
            if hasattr(layer, "cpu_linear") and layer.weight.numel():
                layer.quant_method.process_weights_after_loading(layer)
