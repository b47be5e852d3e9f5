"""An adapter that changes nothing, so that an engine with adapters can serve the bare base as well.

vLLM 0.32 on a CPU answers requests without an adapter with another request's adapter when both are in one batch.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

from arena.lm.lora import CONFIG_FILE, WEIGHTS_FILE, linear_layers
from arena.lm.tokenization import read_config


def save_zero_adapter(source: str | Path, folder: Path) -> None:
    """Write, in PEFT's layout, an adapter of rank 1 and zeros for one kind of layer of the model in ``source``."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(read_config(source), trust_remote_code=False)
    layers = linear_layers(model)
    target = next(iter(layers)).rpartition(".")[2]
    tensors = {}
    for name, layer in layers.items():
        if name.endswith(f".{target}"):
            outputs, inputs = layer.weight.shape  # type: ignore[misc]  # a linear layer's
            tensors[f"base_model.model.{name}.lora_A.weight"] = torch.zeros(1, inputs)
            tensors[f"base_model.model.{name}.lora_B.weight"] = torch.zeros(outputs, 1)
    folder.mkdir(parents=True)
    save_file(tensors, folder / WEIGHTS_FILE, metadata={"format": "pt"})
    config = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 1, "lora_alpha": 1, "target_modules": [target]}
    (folder / CONFIG_FILE).write_text(json.dumps(config | {"base_model_name_or_path": str(source)}), encoding="utf-8")
