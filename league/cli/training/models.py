"""``league models``: the models available without a key, and the models on this machine; ``get`` fetches one."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from games.common.errors import UsageError
from league.cli.parser import Parser, add_json_option

if TYPE_CHECKING:
    from rich.console import Console

    from league.population.models.cache import StoredModel
    from league.population.models.catalogue import ListedModel

EXAMPLES = ("", "smollm2-135m", "get smollm2-135m")
NOTES = (
    "A model is fetched once and kept in the folder that LEAGUE_HOME names, or else in the platform's\ncache folder."
)


def add_arguments(parser: Parser) -> None:
    """Add what the command is given."""
    parser.add_argument("words", nargs="*", metavar="[get] NAME", help="show only this model; get: fetch it")
    add_json_option(parser)


class ModelsReport(NamedTuple):
    """The available models, and the models on this machine."""

    home: Path
    available: tuple[ListedModel, ...]
    stored: dict[str, StoredModel]  # by name


def run(arguments: argparse.Namespace) -> ModelsReport:
    """Fetch the model that ``get`` names, if any; return all models."""
    from league.population.models.cache import cache_home, stored_models
    from league.population.models.catalogue import CATALOGUE, listed
    from league.population.models.fetch import fetch_model

    get = arguments.words[:1] == ["get"]
    names = arguments.words[get:]
    if len(names) > 1 or (get and not names):
        raise UsageError(f"Which model? league models get NAME, where NAME is {', '.join(CATALOGUE)}.")
    if get:
        model = listed(names[0])
        fetch_model(model, lambda what: print(f"{model.name}: {what}", file=sys.stderr, flush=True))
    available, stored = tuple(CATALOGUE.values()), {model.name: model for model in stored_models()}
    if names and not get:
        if names[0] not in stored:
            listed(names[0])  # raises UsageError for a name that is in neither
        available = tuple(model for model in available if model.name == names[0])
        stored = {name: model for name, model in stored.items() if name == names[0]}
    return ModelsReport(cache_home(), available, stored)


def to_json(report: ModelsReport) -> dict[str, Any]:
    """Return the report as JSON data. Missing values are null."""
    from league.population.models.cache import models_folder

    return {
        "folder": str(models_folder()),
        "models": [
            {
                "name": name,
                "about": model.about if model else None,
                "licence": stored.licence if stored else model.licence if model else None,
                "parameters": model.parameters if model else None,
                "context": model.context if model else None,
                "download_bytes": model.download_bytes if model else None,
                "from": model.requirement if model else stored.made_from if stored else None,
                "folder": str(stored.folder) if stored else None,
                "bytes": stored.bytes if stored else None,
            }
            for name, model, stored in _rows(report)
        ],
    }


def print_report(report: ModelsReport, console: Console) -> None:
    """Print each model with its size and licence, and how to use it."""
    from league.population.models.cache import format_bytes

    if report.available:
        console.print("Models available without a key", style="bold")
    for model in report.available:
        stored = report.stored.get(model.name)
        console.print(f"\n{model.name}: {model.about}", markup=False)
        console.print(
            f"  {model.parameters / 1e6:.1f} million parameters, {model.context} tokens of context, "
            f"licence {model.licence}",
            markup=False,
        )
        if stored is None:
            sizes = f"{format_bytes(model.download_bytes)} to download, {format_bytes(model.stored_bytes)} on disk"
            console.print(f"  not on this machine ({sizes}): league models get {model.name}", markup=False)
        else:
            console.print(f"  on this machine: {stored.folder} ({format_bytes(stored.bytes)})", markup=False)
            console.print(f"  as a player: hf:{model.name}    to train: --set model.source={model.name}", markup=False)
    others = [stored for _, model, stored in _rows(report) if stored and model is None]
    if others:
        console.print("\nConverted from .gguf files", style="bold")
    for stored in others:
        licence = f"licence {stored.licence}" if stored.licence else "its file names no licence"
        console.print(f"\n{stored.made_from}: {licence}", markup=False)
        console.print(f"  {stored.folder} ({format_bytes(stored.bytes)})", markup=False)


def _rows(report: ModelsReport) -> list[tuple[str, ListedModel | None, StoredModel | None]]:
    """Return the report's models by name: the available ones first, then others in the cache."""
    available = {model.name: model for model in report.available}
    return [(name, available.get(name), report.stored.get(name)) for name in {**available, **report.stored}]
