"""All commands, in the groups of their folders, each with its line of ``league --help``; and those of plugins.

A command is a module with ``add_arguments(parser)``, ``run(arguments)``, which returns the exit status, and the end of
its help: ``EXAMPLES`` and, optionally, ``NOTES``. In a command with ``--json`` (``add_json_option``), ``run`` returns a
report instead, for ``to_json(report)`` and ``print_report(report, console)``; ``keep(report)`` writes files after that,
and ``status(report)`` is the exit status where that is not 0.

Commands that a user needs weekly are at the top level, in four groups on one screen; the others follow a word, as in
``league lab regret`` or ``league show settings`` (``BEHIND``). They are understood without that word, too.

A module is imported when its command is given. Slow imports belong in the functions that need them, so that
``league COMMAND --help`` is instant.
"""

from __future__ import annotations

import importlib
import keyword
from typing import Any

from games.common import plugins
from games.common.errors import unknown_name

GROUPS = {
    "training": {
        "train": "train a league by self-play, or resume a run",
        "plan": "see which GPUs a run would need, and how long it would take",
        "sweep": "train under several seeds and settings, and compare them",
        "serve-seats": "train a run in which programs play roles through OpenAI's chat-completions API",
        "evolve": "continue a run's population under new settings, in a new run",
        "distil": "make one model that plays as a run's mixture does on average",
        "latent": "cluster what a run's players say, solve the game between clusters, and teach it (LSPO)",
        "breed": "breed a population of runs: settings that mutate, weights that are merged or crossed",
        "models": "list pretrained models that need no key, or fetch one",
        "push": "send a snapshot to the Hugging Face hub",
    },
    "playing": {
        "match": "play two players against each other",
        "eval": "evaluate a player, or compare two, by a suite of games",
        "tournament": "play all players against each other, or resume a tournament",
        "play": "play one match against a player, at the terminal",
        "serve": "serve a snapshot through OpenAI's API, or a seat of a game",
    },
    "measuring": {
        "standings": "show the ranking of a run, and how certain it is",
        "rate": "rate players from a CSV of other people's battles, by several methods",
        "exploitability": "measure how much a best response gains",
        "audit": "audit players: everything measured, on one page",
        "exploit": "train an exploiter of a player: a lower bound on its exploitability",
        "redteam": "measure what an attacker wins from a player, by the attacker's budget",
        "credit": "compare credit rules with the exact gradient",
        "rescore": "credit stored matches again, by another rule or price, without playing",
        "regret": "measure how much more a player would have earned by playing differently",
        "team": "see whether a run's team earns its keep, and which of its roles does",
        "adapt": "measure how quickly a player adapts to a stranger: within a match, or by updates",
        "opponents": "measure what a player can know about its opponents, and what playing by that belief is worth",
    },
    "showing": {
        "games": "list the games, or show one: league games GAME",
        "check": "check that a game obeys the rules for games",
        "presets": "list the presets, and what each of them trains, or show one",
        "settings": "list a run's settings: their values, defaults and meanings",
        "plugins": "list what plugins add: games, rules, players, engines",
        "doctor": "check this machine: what is wrong, and what to type",
        "docs": "list the pages of the documentation, or print one",
        "completion": "print a script that completes commands and options in your shell",
        "board": "show runs in TensorBoard",
        "replay": "show a match step by step",
        "export": "write a run's kept matches for other tools",
        "import": "read whole matches written by `league export`",
        "look": "go from a run's curve to the tokens behind it",
        "report": "write one HTML page on a run, or on several",
    },
}
TITLES = {"training": "Train", "playing": "Play", "measuring": "Measure", "showing": "Look"}
LAB = {
    *("serve-seats", "evolve", "distil", "latent", "breed", "exploit", "redteam", "rescore", "regret", "team"),
    *("opponents", "import", "rate", "adapt"),
}
SHOW = {"presets", "settings", "plugins", "docs", "completion"}
BEHIND = {  # the words that commands stand behind, with their line of help
    "lab": ("further studies: exploiters, teams, breeding, distilling", LAB),
    "show": ("show presets, settings, plugins or a page of the docs", SHOW),
}
WIDTH = 16  # of the column of names
COMMANDS = {name: (group, sentence) for group, own in GROUPS.items() for name, sentence in own.items()}


def written(name: str) -> str:
    """Return a command as it is typed after ``league``, such as ``lab regret``."""
    before = next((f"{word} " for word, (_, names) in BEHIND.items() if name in names), "")
    return before + name


def screen() -> str:
    """Return the commands of ``league --help``, by group."""
    lines = []
    for group, own in GROUPS.items():
        top = {name: sentence for name, sentence in own.items() if written(name) == name}
        lines += [f"{TITLES[group]}:", *(f"  {name:{WIDTH}}{sentence}" for name, sentence in top.items())]
    return "\n".join([*lines, "More:", *(f"  {word:{WIDTH}}{sentence}" for word, (sentence, _) in BEHIND.items())])


def find(name: str) -> Any:
    """Return the module of a command, ours or an installed package's. Raises UsageError for an unknown name."""
    if name in COMMANDS:
        stem = name.replace("-", "_") + "_" * keyword.iskeyword(name)
        return importlib.import_module(f"league.cli.{COMMANDS[name][0]}.{stem}")
    command = plugins.lookup("commands", name)
    if command is None:
        raise unknown_name("command", name, [*COMMANDS, *plugins.names("commands")])
    return command


def sentence_of(command: Any) -> str:
    """Return the line of help of a plugin's command: the first sentence of its module's docstring."""
    return (command.__doc__ or "").strip().partition("\n\n")[0].replace("\n", " ").rstrip(".")


def _accepted(value: Any) -> Any:
    """Return a plugin's command; None for anything that cannot be one."""
    return value if all(callable(getattr(value, name, None)) for name in ("add_arguments", "run")) else None


plugins.add_group("commands", "command", _accepted)
