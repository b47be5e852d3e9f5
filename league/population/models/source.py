"""The models that ``model.source`` and ``hf:`` name: a model of the catalogue, a folder, a .gguf file, or a hub id."""

from __future__ import annotations

from pathlib import Path

from games.common.errors import UsageError
from league.config import CONFIG_FILE
from league.population.models.cache import models_folder, store_model, stored_model
from league.population.models.catalogue import CATALOGUE
from league.population.storage.population import Population


def model_folder(source: str) -> Path | str:
    """Return the folder, in Hugging Face layout, of the model that ``source`` names; a hub id is returned as it is.

    A .gguf file is converted when it is first named, into a folder of the cache that is found by the file's content.
    Raises UsageError for a model that is not on this machine yet, and for a file or folder that is missing or unfit.
    """
    if source in CATALOGUE:
        stored = stored_model(source)
        if stored is None:
            raise UsageError(
                f"The model {source} is not on this machine yet ({models_folder() / source}). Fetch it once: "
                f"league models get {source}"
            )
        return stored.folder
    path = Path(source).expanduser()
    if path.suffix.lower() == ".gguf":
        return _converted(path)
    if path.is_dir():
        if odd := [file for file in path.iterdir() if not (file.is_file() or file.is_dir())]:
            raise UsageError(f"{min(odd)} is a pipe, a device or a link to nothing, which no model has. Remove it.")
        pickled = sorted(file.name for file in path.glob("pytorch_model*.bin"))
        if pickled and not any(path.glob("*.safetensors")):
            raise UsageError(
                f"{path} has its weights in {pickled[0]}, a format that can run code when it is read. Only safetensors "
                "are read: convert it, or take a version of the model that has them."
            )
        return snapshot_folder(path) or path.absolute()
    if path.is_absolute() or source.startswith((".", "~")):
        raise UsageError(f"There is no folder {path}. Give a folder in Hugging Face layout, a .gguf file or a hub id.")
    return source


def snapshot_folder(run: Path) -> Path | None:
    """Return the folder of a run's newest snapshot; None for a folder that is not a run, or has none yet."""
    root = run / "population"
    snapshots = Population(root).all() if (run / CONFIG_FILE).is_file() and root.is_dir() else []
    return snapshots[-1].path.absolute() if snapshots else None


def _converted(path: Path) -> Path:
    """Return the folder of a .gguf file's model."""
    from league.population.models.gguf_file import (  # slow to import
        BYTES_PER_WEIGHT,
        content_name,
        convert_gguf,
        read_facts,
    )

    name = content_name(path)
    if stored := stored_model(name):
        return stored.folder
    facts = read_facts(path)

    def write(folder: Path) -> dict[str, str | None]:
        convert_gguf(path, folder)
        return {"made_from": str(path.absolute()), "licence": facts.licence}

    return store_model(name, facts.weights * BYTES_PER_WEIGHT, write).folder
