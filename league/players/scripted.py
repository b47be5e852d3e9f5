"""Scripted players by the names that users write."""

from __future__ import annotations

from collections.abc import Callable

from arena.records import Sampler
from arena.samplers.scripted import Always, Equilibrium, ExactPolicy, Mcts, Random, Script
from games.common.errors import UsageError
from games.common.section import LARGEST_COUNT
from games.spec import GameSpec


def _mcts(sims: str) -> Sampler:
    if not sims.isdecimal() or len(sims) > len(str(LARGEST_COUNT)) or int(sims) > LARGEST_COUNT:
        raise UsageError(f"mcts:{sims[:40]}: mcts takes a number of simulations, for example mcts:100.")
    return Mcts(int(sims))


def _equilibrium() -> Sampler:
    return Equilibrium(_exact)


def _exact(spec: GameSpec) -> ExactPolicy | None:
    from league.exact.game_value import reached_equilibrium  # scipy is slow to import

    return reached_equilibrium(spec)


# Constructors by the form of the name. The text after a colon is the constructor's argument.
SCRIPTED: dict[str, Callable[..., Sampler]] = {
    "random": Random,
    "always:ACTION": Always,
    "equilibrium": _equilibrium,
    "mcts:SIMS": _mcts,
    "scripted:NAME": Script,
}


def scripted_player(text: str) -> Sampler | None:
    """Return the scripted player that ``text`` names, else None. Raises UsageError for a bad argument."""
    name, _, argument = text.partition(":")
    for form, make in SCRIPTED.items():
        if form.startswith(f"{name}:"):
            return make(argument)
        if form == text:
            return make()
    return None
