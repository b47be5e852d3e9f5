"""The base model of a run's adapters, stored once in ``RUN/base/``, in Hugging Face layout.

Only a base that was built for the run is stored; a run on a checkpoint refers to it by name, path or hub id.
"""

from __future__ import annotations

import json
from pathlib import Path

from arena.lm.language_model import LanguageModel
from games.common.errors import UsageError
from league.config import RunConfig
from league.models.source import model_folder
from league.storage.immutable_folder import changed_files, discard, freeze, remove_partial

BASE_FOLDER = "base"  # in a run directory
_CARD = "base.json"


def base_source(config: RunConfig) -> str:
    """Return where a run's base is, as its snapshots record it: a folder (a stored one's from theirs), or a hub id.

    Raises UsageError for a model that is not on this machine.
    """
    return f"../../{BASE_FOLDER}" if config.model.source == "pocket" else str(model_folder(config.model.source))


def save_base(config: RunConfig, run_dir: Path, lm: LanguageModel) -> None:
    """Store the base of a run's adapters. One that a killed process left is replaced."""
    folder = run_dir / BASE_FOLDER
    remove_partial(run_dir)
    if folder.exists():
        discard(folder)
    if config.model.source == "pocket":
        freeze(folder, _CARD, lm.save, {})


def load_base(config: RunConfig, run_dir: Path) -> LanguageModel:
    """Return the base of a run's adapters. Raises UsageError if it is missing, or changed since it was stored."""
    model = config.model
    return LanguageModel.load(verified_base(config, run_dir), device=model.device, dtype=model.dtype)


def verified_base(config: RunConfig, run_dir: Path) -> Path | str:
    """Return where the base of a run's adapters is: a folder, or a hub id. Raises UsageError as ``load_base``."""
    if config.model.source != "pocket":
        return model_folder(config.model.source)
    folder = run_dir / BASE_FOLDER
    try:
        hashes = json.loads((folder / _CARD).read_text(encoding="utf-8"))["sha256"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{folder} is not the base of a run's adapters ({error!r}). Restore it from a copy."
        ) from error
    if wrong := changed_files(folder, _CARD, hashes):
        raise UsageError(
            f"The base of the adapters in {run_dir} has changed since it was stored: {', '.join(wrong)} in {folder} is "
            "missing, foreign or changed. Restore the folder from a copy; without it no adapter of this run can play."
        )
    return folder
