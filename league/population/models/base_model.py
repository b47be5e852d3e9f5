"""The base models of a run's adapters, stored in ``RUN/base/``, in Hugging Face layout.

Policies with their own base model have it in ``RUN/base-NAME/``, named after the first of them. Only a base that was
built for the run is stored; a run on a checkpoint refers to it by name, path or hub id.
"""

from __future__ import annotations

from pathlib import Path

from arena.lm.language_model import LanguageModel
from games.common.errors import UsageError
from games.common.files import read_json
from league.config import RunConfig
from league.population.models.source import model_folder
from league.population.storage.immutable_folder import changed_files, discard, freeze, remove_partial

BASE_FOLDER = "base"  # in a run directory
_CARD = "base.json"


def base_name(config: RunConfig, policy: str) -> str:
    """Return the name of the folder for a policy's base in a run directory."""
    model = config.model_of(policy)
    if model == config.model:
        return BASE_FOLDER
    return f"{BASE_FOLDER}-{next(name for name in config.policies if config.model_of(name) == model)}"


def base_source(config: RunConfig, policy: str) -> str:
    """Return where a policy's base is, as snapshots record it: a folder (relative to theirs if stored), or a hub id.

    Raises UsageError for a model that is not on this machine.
    """
    source = config.model_of(policy).source
    return f"../../{base_name(config, policy)}" if source == "pocket" else str(model_folder(source))


def save_base(config: RunConfig, run_dir: Path, policy: str, lm: LanguageModel) -> None:
    """Store the base of a policy's adapter, replacing one that a killed process left."""
    folder = run_dir / base_name(config, policy)
    remove_partial(run_dir)
    if folder.exists():
        discard(folder)
    if config.model_of(policy).source == "pocket":
        freeze(folder, _CARD, lm.save, {})


def load_base(config: RunConfig, run_dir: Path, policy: str) -> LanguageModel:
    """Return the base of a policy's adapter. Raises UsageError if it is missing, or changed since it was stored."""
    model = config.model_of(policy)
    return LanguageModel.load(verified_base(config, run_dir, policy), device=model.device, dtype=model.dtype)


def verified_base(config: RunConfig, run_dir: Path, policy: str) -> Path | str:
    """Return where the base of a policy's adapter is: a folder, or a hub id. Raises UsageError as ``load_base``."""
    source = config.model_of(policy).source
    if source != "pocket":
        return model_folder(source)
    folder = run_dir / base_name(config, policy)
    try:
        hashes = read_json(folder / _CARD)["sha256"]
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
