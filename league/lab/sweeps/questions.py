"""Questions about a trained run: a command of `league`, or a function of the run's folder."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from games.common.errors import UsageError

RUN = "RUN"  # stands for the run in a command
EXAMPLE = f"match {RUN} random --game kuhn_poker"
Question = Callable[[Path], Mapping[str, Any]]  # returns JSON data


class NotAnswered(RuntimeError):
    """A command that asks about a run has failed."""


def command_questions(commands: Sequence[str]) -> dict[str, Question]:
    """Return commands as questions, by their text. Raises UsageError for a command that does not name RUN."""
    for command in commands:
        if not any(_names_run(word) for word in _words(command)):
            raise UsageError(f"--ask {command!r} does not mention the run. Write RUN in its place: --ask '{EXAMPLE}'")
    return {command: partial(ask_command, command) for command in commands}


def ask_command(command: str, run_dir: Path) -> dict[str, Any]:
    """Return the JSON object that a `league` command prints, run in a separate process. Raises NotAnswered."""
    words = [str(run_dir) + word.removeprefix(RUN) if _names_run(word) else word for word in _words(command)]
    command_line = [sys.executable, "-m", "league", *words, "--json"]
    process = subprocess.run(command_line, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if process.returncode:
        errors = process.stderr.strip().splitlines() or ["it said nothing"]
        raise NotAnswered(f"league {command} failed: {errors[-1].removeprefix('league: ')}")
    answer = json.loads(process.stdout)
    return answer if isinstance(answer, dict) else {"answer": answer}


def _names_run(word: str) -> bool:
    return word == RUN or word.startswith(f"{RUN}@")


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as error:
        raise UsageError(f"--ask {command!r} cannot be read ({error}).") from None
