"""Tries out game parameters in a separate process, since OpenSpiel checks few of them and may crash.

``python -m games.openspiel.probe NAME`` makes the game and plays one short match of it.
"""

from __future__ import annotations

import math
import random
import re
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from games.common.errors import UsageError

USUAL = 100  # a whole number up to this, or up to the default, is taken without a trial unless it is below 1
SECONDS = 3  # of a processor's time that a game may take to be made and played
PATIENCE = 60.0  # seconds of the clock, on a machine that has other work
MEMORY = 4 * 2**30  # bytes that it may take
MOVES = 50
ACTIONS = 100_000  # that it may have: each gets a label
_ENDS_PROCESS = ("universal_poker",)  # ends the process at parameters that do not fit each other, small ones too


def check_parameters(name: str, parameters: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """Raise UsageError, with the unusual values named, if a game with these parameters cannot be made and played."""
    given = {key: value for key, value in parameters.items() if key != "name"}
    ends_process = name.startswith(_ENDS_PROCESS)
    unusual = {key: value for key, value in given.items() if ends_process or _is_unusual(value, defaults.get(key))}
    if not unusual:
        return
    command = [sys.executable, "-m", "games.openspiel.probe", name]
    with suppress(subprocess.TimeoutExpired):
        if subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False).returncode == 0:
            return
    values = ", ".join(f"{key} = {value}" for key, value in unusual.items())
    raise UsageError(
        f"There is no game {name!r}: OpenSpiel fails with {values}, or it has more than {ACTIONS:,} actions or takes "
        f"more than {SECONDS} s or {MEMORY // 2**30} GiB for {MOVES} moves. Choose a usual value."
    )


def _is_unusual(value: Any, default: Any) -> bool:
    if isinstance(value, str):  # as pile_sizes of nim, "1;3;5;7"
        return value != default and any(int(number) > USUAL for number in re.findall(r"\d+", value))
    return type(value) is int and not 1 <= value <= max(USUAL, default if type(default) is int else 0)


def _play(name: str) -> None:
    """Play one random match of a few moves. Raises an error, or ends the process, where OpenSpiel does."""
    import pyspiel

    with suppress(ImportError):  # not on Windows
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        used = resource.getrusage(resource.RUSAGE_SELF)  # by the imports
        most = math.ceil(used.ru_utime + used.ru_stime) + SECONDS
        resource.setrlimit(resource.RLIMIT_CPU, (most, most))
    game = pyspiel.load_game(name)
    if game.get_type().dynamics == pyspiel.GameType.Dynamics.SIMULTANEOUS:
        game = pyspiel.convert_to_turn_based(game)
    if game.num_distinct_actions() > ACTIONS:
        raise ValueError("it has too many actions")
    game.min_utility(), game.max_utility(), game.max_game_length()
    state, rng = game.new_initial_state(), random.Random(0)
    moves = 0
    while not state.is_terminal() and moves < MOVES:
        str(state)
        state.apply_action(rng.choice(state.legal_actions()))
        moves += 1
    if not moves:
        raise ValueError("its matches are over before they begin")
    state.returns()


if __name__ == "__main__":
    _play(sys.argv[1])
