"""The base model that all adapters of a run share, kept once: ``RUN/base/``, in Hugging Face layout.

Only a base that was built for the run is kept; a checkpoint stays where it is, and the run refers to it.
"""

from __future__ import annotations

import json
from pathlib import Path

from arena.lm import LanguageModel
from games.errors import UsageError
from league.config import RunConfig
from league.frozen import changed, discard, freeze, remove_partial

BASE_FOLDER = "base"  # in a run directory
_CARD = "base.json"


def base_source(config: RunConfig) -> str:
    """Return where a run's base is, as its snapshots tell other tools: a path from their own folder, or a hub id."""
    return f"../../{BASE_FOLDER}" if config.model.source == "pocket" else config.model.source


def save_base(config: RunConfig, run_dir: Path, lm: LanguageModel) -> None:
    """Keep the base that a run's adapters will be trained on. One that a killed process left is replaced."""
    folder = run_dir / BASE_FOLDER
    remove_partial(run_dir)
    if folder.exists():
        discard(folder)
    if config.model.source == "pocket":
        freeze(folder, _CARD, lm.save, {})


def load_base(config: RunConfig, run_dir: Path) -> LanguageModel:
    """Return the base of a run's adapters. Raises UsageError if it is not as it was kept, or is not there."""
    model = config.model
    return LanguageModel.load(verified_base(config, run_dir), device=model.device, dtype=model.dtype)


def verified_base(config: RunConfig, run_dir: Path) -> Path | str:
    """Return where the base of a run's adapters is: a folder, or a hub id. Raises UsageError as ``load_base``."""
    if config.model.source != "pocket":
        return config.model.source
    folder = run_dir / BASE_FOLDER
    try:
        hashes = json.loads((folder / _CARD).read_text(encoding="utf-8"))["sha256"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{folder} is not the base of a run's adapters ({error!r}). Restore it from a copy."
        ) from error
    if wrong := changed(folder, _CARD, hashes):
        raise UsageError(
            f"The base of the adapters in {run_dir} is not as it was kept: {', '.join(wrong)} in {folder} is missing, "
            "foreign or changed. Restore the folder from a copy; without it no adapter of this run can play."
        )
    return folder
