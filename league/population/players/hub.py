"""Language models by name: checks that one exists, before torch is imported and a hub is asked repeatedly."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from games.common.errors import UsageError
from league.population.models.catalogue import CATALOGUE
from league.population.models.source import snapshot_folder

CONFIG = "config.json"  # of a model in Hugging Face layout
ADAPTER_CONFIG = "adapter_config.json"  # of an adapter in PEFT's layout, which names its base
PATIENCE = 10.0  # seconds within which a hub must answer at all


def check_model(source: str, where: str, *, adapters: bool = False) -> None:
    """Raise UsageError, which begins with ``where``, unless ``source`` is a model's folder or may be a hub's id.

    With ``adapters``, the folder may be an adapter's; its base is checked when it is loaded. Whether the hub knows the
    id is also checked on loading; here one request checks that a hub answers, unless this machine has a copy of the
    model.
    """
    path = Path(source).expanduser()
    if source in CATALOGUE or path.suffix.lower() == ".gguf":
        return  # ``model_folder`` explains
    if path.is_dir():
        path = snapshot_folder(path) or path
        _check_folder(path, where, adapters=adapters)
        return
    if path.exists():
        raise UsageError(f"{where}: {path} is a file. Name the folder of a model in Hugging Face layout.")
    if path.is_absolute() or source.startswith((".", "~")) or source.count("/") > 1:
        raise UsageError(f"{where}: there is no folder {path}.")
    from huggingface_hub import constants, try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils._validators import validate_repo_id

    try:
        validate_repo_id(source)
    except HFValidationError:
        raise UsageError(f"{where}: there is no folder {path}, and a hub's ids look like Qwen/Qwen3-0.6B.") from None
    if isinstance(try_to_load_from_cache(source, CONFIG), str):
        return
    if constants.HF_HUB_OFFLINE or os.environ.get("TRANSFORMERS_OFFLINE"):
        raise UsageError(
            f"{where}: there is no such folder, nor a copy from the hub, which HF_HUB_OFFLINE forbids contacting."
        )
    _ask(constants.ENDPOINT, where)


def _check_folder(path: Path, where: str, *, adapters: bool) -> None:
    is_adapter = (path / ADAPTER_CONFIG).is_file()
    if (path / CONFIG).is_file() or (is_adapter and adapters):
        return
    if is_adapter:
        raise UsageError(
            f"{where}: the folder {path} holds an adapter. Name the model that it adapts, or merge the two with PEFT."
        )
    raise UsageError(f"{where}: the folder {path} is not a model in Hugging Face layout: it has no {CONFIG}.")


def _ask(hub: str, where: str) -> None:
    """Raise UsageError unless something answers at the hub's address, whatever it says."""
    if reason := why_not_reached(hub):
        raise UsageError(
            f"{where}: there is no such folder, and the hub {hub} cannot be reached ({reason}). Name a folder, or "
            "try again with a network."
        )


def why_not_reached(hub: str) -> str:
    """Return why nothing answers at the hub's address; empty if something does, whatever it says."""
    try:
        urlopen(Request(hub, method="HEAD"), timeout=PATIENCE).close()  # of the user's own settings
    except HTTPError:
        return ""
    except (URLError, OSError, ValueError) as error:
        return str(getattr(error, "reason", None) or error)
    return ""
