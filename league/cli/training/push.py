"""``league push``: a snapshot as a model of the hub, with a card; ``--dry-run`` shows every file and sends nothing."""

from __future__ import annotations

import argparse
import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from games.aliases import short_name
from games.common.destinations import folder_to_fill
from games.common.errors import UsageError
from games.common.text import plain
from league.cli.parser import Parser

if TYPE_CHECKING:
    from league.config import RunConfig
    from league.population.models.model_card import Base, CardFacts
    from league.population.storage.population import Snapshot
    from league.population.storage.run_dir import Run

EXAMPLES = ("runs/pocket me/kuhn-player --dry-run", "runs/pocket@main-000120 me/kuhn-player --out model --public")
NAME = re.compile(r"[\w.-]+/[\w.-]+")
MEASURED = ("exploitability", "mixture_exploitability", "return", "held_out_return", "score_against_random")


def add_arguments(parser: Parser) -> None:
    """Add what the command is given."""
    parser.add_argument("snapshot", metavar="RUN@SNAPSHOT", help="a run's newest snapshot, or the one named")
    parser.add_argument("name", metavar="ORG/NAME", help="its name on the hub")
    parser.add_argument("--dry-run", action="store_true", help="list every file, and send nothing")
    parser.add_argument("--out", metavar="DIR", help="also keep the folder here")
    parser.add_argument("--public", action="store_true", help="let everybody see it (default: private)")


def run(arguments: argparse.Namespace) -> int:
    """Make the folder, show it, and send it unless this is a dry run."""
    from league.cli.playing.serve import one_snapshot

    if not NAME.fullmatch(arguments.name):
        raise UsageError(f"{arguments.name!r} is not a name on the hub. Write ORG/NAME, for example me/kuhn-player.")
    source, snapshot = one_snapshot(arguments.snapshot, "push")
    with tempfile.TemporaryDirectory() as temporary:
        folder = folder_to_fill(arguments.out, "--out") if arguments.out else Path(temporary) / "model"
        if folder.is_dir() and any(folder.iterdir()):
            raise UsageError(f"--out {folder}: it is not empty. Name a new folder.")
        try:
            make_folder(folder, source, snapshot, arguments.name)
        except shutil.Error as error:  # of several files, each with its reason
            raise UsageError(f"{folder} cannot be written: {error.args[0][0][2]}.") from error
        for path in sorted(folder.iterdir()):
            print(f"{path.stat().st_size:>12,}  {plain(path.name)}")
        if arguments.dry_run:
            print(f"Nothing was sent: without --dry-run this would be https://huggingface.co/{arguments.name}")
        else:
            print(_send(folder, arguments.name, public=arguments.public))
    return 0


def make_folder(folder: Path, run: Run, snapshot: Snapshot, name: str) -> None:
    """Write a snapshot in the form that other tools load: its files, a tokenizer with its chat template, and a model
    card.

    An adapter whose base is only on this machine is merged into it.
    """
    from arena.lm.lora import adapter_base, is_adapter  # torch is slow to import
    from arena.lm.tokenization import with_chat_template
    from league.population.models.model_card import CARD_FILE, model_card

    base = adapter_base(snapshot.path) if is_adapter(snapshot.path) else None
    if isinstance(base, Path):
        from league.population.models.base_model import verified_base
        from league.population.models.merged import save_merged

        save_merged(verified_base(run.config, run.path, snapshot.policy), snapshot.path, folder)
    else:
        shutil.copytree(snapshot.path, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("snapshot.json"))
        for path in folder.iterdir():
            path.chmod(0o644)
    if not is_adapter(folder):
        with_chat_template(folder).save_pretrained(folder)
    facts = _facts(run, snapshot, name, merged=isinstance(base, Path))
    (folder / CARD_FILE).write_text(model_card(facts), encoding="utf-8")


def _base(source: str) -> Base | None:
    """Return the model card's name for a run's base model, without local paths; None if it had none."""
    from league.population.models.catalogue import CATALOGUE
    from league.population.models.model_card import Base

    if source == "pocket":
        return None
    if source in CATALOGUE:
        return Base(f"{source} ({CATALOGUE[source].about})", on_hub=False)
    path = Path(source).expanduser()
    is_local = path.exists() or path.is_absolute()
    return Base(path.name, on_hub=False) if is_local else Base(source, on_hub=True)


def _facts(run: Run, snapshot: Snapshot, name: str, *, merged: bool) -> CardFacts:
    from league.lab.reports.again import command
    from league.population.models.example_requests import example_requests
    from league.population.models.model_card import CardFacts
    from league.training.board.metrics_log import read_metrics

    config = run.config
    examples = example_requests(config, snapshot.policy)
    prompts = {role: example.chat for role, example in examples.items()}
    actions = {role: example.legal for role, example in examples.items()}
    measured = {
        f"{short_name(game)}/{key}": line[f"{game}/{key}"]
        for line in read_metrics(run.path)
        if line["iteration"] == snapshot.step
        for game in config.games
        for key in MEASURED
        if f"{game}/{key}" in line
    }
    games = [short_name(game) for game in config.games]
    settings = _settings(config)
    return CardFacts(
        name,
        snapshot.id,
        games,
        _base(config.model_of(snapshot.policy).source),
        merged,
        snapshot.step,
        settings,
        measured,
        prompts,
        actions,
        command(config),
    )


def _settings(config: RunConfig) -> dict[str, str]:
    """Return the settings that a card lists."""
    return {
        "credit.rule": config.credit.rule,
        "objective.name": config.objective.name,
        "optimizer.learning_rate": f"{config.optimizer.learning_rate:g}",
        "iterations": str(config.iterations),
        "seed": str(config.seed),
    }


def _send(folder: Path, name: str, *, public: bool) -> str:
    """Send a folder to the hub; return its address. Raises UsageError with the hub's answer."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, LocalTokenNotFoundError

    from league.population.players.hub import why_not_reached

    api = HfApi()
    try:
        api.create_repo(name, private=not public, exist_ok=True)
        api.upload_folder(repo_id=name, folder_path=folder, commit_message="A snapshot of a league")
    except LocalTokenNotFoundError:
        raise UsageError("You are not logged in to the hub. Log in: hf auth login") from None
    except (HfHubHTTPError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UsageError(
            f"The hub refused {name}: {reason} Is it yours, and are you logged in (hf auth login)?"
        ) from error
    except Exception as error:  # of the library that the hub's client asks with, whichever it is
        if not (reason := why_not_reached(api.endpoint)):
            raise
        raise UsageError(f"The hub {api.endpoint} cannot be reached ({reason}). Nothing was sent.") from error
    return f"{api.endpoint}/{name}"
