"""Which wording of the roles a model gets: the full rules, or the brief one if it was trained from scratch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from games.common.files import read_json, read_toml
from roles.role import Wording

RUN_CONFIG = "config.toml"  # in a run's folder
# What the folder of a model or adapter holds. The tokens are those of the tokenizers that ``arena.lm.pocket`` trains.
TOKENIZER_CONFIG, ADAPTER_CONFIG = "tokenizer_config.json", "adapter_config.json"
POCKET_TOKENS = {"eos_token": "<|end|>", "pad_token": "<|pad|>"}


def wording_for(source: str | Path) -> Wording:
    """Return the wording for a model's or an adapter's folder, a run's folder, a hub's id, or ``"pocket"``.

    A run's is the one in which its policies have learned to read: what its configuration states, or that of its model.
    """
    if source == "pocket":
        return Wording.BRIEF
    folder = Path(source).expanduser()
    run = _read_toml(folder / RUN_CONFIG)
    if "model" in run:
        stated = run.get("roles", {}).get("wording")
        return Wording(stated) if stated in [*Wording] else wording_for(run["model"].get("source", "pocket"))
    return Wording.BRIEF if _is_pocket(folder) else Wording.FULL


def _is_pocket(folder: Path) -> bool:
    """Return whether a folder holds a model that began from nothing here, or an adapter on one."""
    if (folder / ADAPTER_CONFIG).is_file():
        name = str(_read(folder / ADAPTER_CONFIG).get("base_model_name_or_path"))
        folder = folder / name if (folder / name).is_dir() else Path(name)
    return POCKET_TOKENS.items() <= _read(folder / TOKENIZER_CONFIG).items()


def _read_toml(path: Path) -> dict[str, Any]:
    """Return the contents of a TOML file, empty if there is none: the code that loads the run reports the error."""
    try:
        return read_toml(path)
    except (OSError, ValueError):
        return {}


def _read(path: Path) -> dict[str, Any]:
    """Return a JSON object, empty if there is none: the code that loads the model reports the error."""
    try:
        content = read_json(path)
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
