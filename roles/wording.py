"""Which wording of roles a model understands: all rules, or, where it began from nothing, the brief one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from roles.role import Wording

# What the folder of a model or adapter holds. The tokens are those of the tokenizers that ``arena.lm.pocket`` trains.
TOKENIZER_CONFIG, ADAPTER_CONFIG = "tokenizer_config.json", "adapter_config.json"
POCKET_TOKENS = {"eos_token": "<|end|>", "pad_token": "<|pad|>"}


def wording_for(source: str | Path) -> Wording:
    """Return the wording for a model's or an adapter's folder, a hub's id, or ``"pocket"``."""
    return Wording.BRIEF if source == "pocket" or _is_pocket(Path(source)) else Wording.FULL


def _is_pocket(folder: Path) -> bool:
    """Return whether a folder holds a model that began from nothing here, or an adapter on one."""
    if (folder / ADAPTER_CONFIG).is_file():
        name = str(_read(folder / ADAPTER_CONFIG).get("base_model_name_or_path"))
        folder = folder / name if (folder / name).is_dir() else Path(name)
    return POCKET_TOKENS.items() <= _read(folder / TOKENIZER_CONFIG).items()


def _read(path: Path) -> dict[str, Any]:
    """Return a JSON object, empty where there is none: whoever loads the model says what is wrong."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
