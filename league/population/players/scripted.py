"""Scripted players by the names that users write."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from arena.records import Sampler
from arena.samplers.scripted import ActionValues, Always, Equilibrium, ExactPolicy, Mcts, Minimax, Random, Script
from games.common import plugins
from games.common.errors import UsageError
from games.common.section import LARGEST_COUNT
from games.spec import GameSpec, Utility


def _mcts(sims: str) -> Sampler:
    if not sims.isdecimal() or len(sims) > len(str(LARGEST_COUNT)) or int(sims) > LARGEST_COUNT:
        raise UsageError(f"mcts:{sims[:40]}: mcts takes a number of simulations, for example mcts:100.")
    return Mcts(int(sims))


def _equilibrium() -> Sampler:
    return Equilibrium(_exact)


def _exact(spec: GameSpec) -> ExactPolicy | None:
    from league.theory.exact.game_value import reached_equilibrium  # scipy is slow to import

    return reached_equilibrium(spec)


def _minimax() -> Sampler:
    return Minimax(_action_values)


def _action_values(spec: GameSpec) -> ActionValues:
    """Return what each action of a board game is worth. Raises UsageError for any other game, and a large one."""
    from league.theory.exact.position_graph import position_graph  # OpenSpiel is slow to import

    if not (spec.perfect_information and spec.seats == 2 and spec.utility is Utility.ZERO_SUM) or spec.has_chance:
        raise UsageError(
            f"minimax needs a game of two without chance or hidden information, in which what one wins the other "
            f"loses, and {spec.name} is not one. Use equilibrium or random."
        )
    graph = position_graph(spec.name)
    rows = zip(graph.keys, graph.legal, graph.action_values(), strict=True)
    return {key: dict(zip(legal, values, strict=True)) for key, legal, values in rows}


# Constructors by the form of the name. The text after a colon is the constructor's argument.
SCRIPTED: dict[str, Callable[..., Sampler]] = {
    "random": Random,
    "always:ACTION": Always,
    "equilibrium": _equilibrium,
    "minimax": _minimax,
    "mcts:SIMS": _mcts,
    "scripted:NAME": Script,
}


def _wrong(make: Callable[..., Sampler]) -> str:
    """Return what is wrong with a plugin's constructor, in a clause; "" for nothing."""
    needed = [one.name for one in inspect.signature(make).parameters.values() if one.default is one.empty]
    many = f"its constructor takes {', '.join(needed)}: it gets only the text after the colon of NAME:ARGUMENT"
    return many if len(needed) > 1 else ""


plugins.add_group("scripted", "scripted player", lambda make: make if callable(make) else None, _wrong)


def register(name: str, make: Callable[..., Sampler]) -> None:
    """Add a scripted player of a plugin: ``NAME``, or ``NAME:ARGUMENT`` if its constructor takes an argument.

    Raises UsageError for a name that is taken.
    """
    plugins.register("scripted", name, make, built_in=[form.partition(":")[0] for form in SCRIPTED])


def scripted_forms() -> list[str]:
    """Return the forms of the names of all scripted players, including plugins'."""
    return [*SCRIPTED, *(_form(name, plugins.lookup("scripted", name)) for name in plugins.names("scripted"))]


def scripted_player(text: str) -> Sampler | None:
    """Return the scripted player that ``text`` names, else None. Raises UsageError for a bad argument."""
    name, _, argument = text.partition(":")
    made = plugins.lookup("scripted", name)
    for form, make in (SCRIPTED if made is None else {_form(name, made): made}).items():
        if form.startswith(f"{name}:"):
            return _beside(text, make(argument))
        if form == text:
            return _beside(text, make())
    return None


def _beside(text: str, player: Sampler) -> Sampler:
    """Return a player as it is asked: one that states ``limits``, because it is slow, alongside all other play."""
    limits = getattr(player, "limits", None)
    if limits is None:
        return player
    from arena.samplers.beside import Beside  # needed by few, and asyncio takes a while to import
    from arena.tool_calls import CallLimits

    return Beside(player, CallLimits(text, **limits))


def _form(name: str, make: Callable[..., Sampler]) -> str:
    """Return how a plugin's player is written: with its constructor's argument, if it takes one."""
    taken = list(inspect.signature(make).parameters)
    return f"{name}:{taken[0].upper()}" if taken else name
