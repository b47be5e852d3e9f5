"""Every game by name: ``make_game("kuhn_poker(players=3)")``.

A game written here is registered by one line in ``NATIVE``: its name and a constructor that returns a
``Game``. The constructor's parameters, whole numbers with defaults, are those that the name may give.
Every name not in ``NATIVE`` is OpenSpiel's.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable

from games.errors import UsageError
from games.judged_arithmetic import JudgedArithmetic
from games.lookup import Lookup
from games.lookup_alone import LookupAlone
from games.lookup_chain import LookupChain
from games.openspiel import OpenSpielGame, openspiel_names
from games.pair_arithmetic import PairArithmetic
from games.relay_arithmetic import RelayArithmetic
from games.spec import Game, GameSpec

NATIVE: dict[str, Callable[..., Game]] = {
    "lookup": Lookup,
    "lookup_alone": LookupAlone,
    "lookup_chain": LookupChain,
    "relay_arithmetic": RelayArithmetic,
    "pair_arithmetic": PairArithmetic,
    "judged_arithmetic": JudgedArithmetic,
}

# Games whose observations and actions are written for language models.
RENDERED = (
    "kuhn_poker",
    "kuhn_poker(players=3)",
    "leduc_poker",
    "liars_dice",
    "tiny_hanabi",
    "tic_tac_toe",
    "connect_four",
    "hex(board_size=3)",
    "sheriff(item_penalty=1.0,item_value=5.0,max_bribe=2,max_items=10,num_rounds=2,sheriff_penalty=1.0)",
    "hanabi(players=2,colors=1,ranks=3,hand_size=2,max_information_tokens=2,max_life_tokens=1)",
)


def make_game(name: str) -> Game:
    """Return a new match of the game, begun with seed 0. Raises UsageError for a wrong name or parameter."""
    base = name.split("(")[0]
    if base in NATIVE:
        game = NATIVE[base](**_parameters(name, base))
        if game.spec.name != name:  # a game has one name, by which roles, results and configurations know it
            raise UsageError(f"There is no game {name!r}: it is written {game.spec.name!r}.")
        return game
    return OpenSpielGame(name)


def with_opened(names: Iterable[str]) -> list[str]:
    """Return the games, and after them all those whose matches theirs may open, each once."""
    found = dict.fromkeys(names)
    waiting = list(found)
    while waiting:
        news = [name for name in make_game(waiting.pop(0)).spec.opens if name not in found]
        found |= dict.fromkeys(news)
        waiting += news
    return list(found)


def _parameters(name: str, base: str) -> dict[str, int]:
    """Return the parameters that the name of a game written here gives."""
    known = list(inspect.signature(NATIVE[base]).parameters)
    form = f"It is written {base}({', '.join(f'{key}=NUMBER' for key in known)}), each optional." if known else ""
    given: dict[str, int] = {}
    if name == base:
        return given
    if not known:
        raise UsageError(f"There is no game {name!r}: {base} takes no parameters.")
    for part in name[len(base) :].removeprefix("(").removesuffix(")").split(","):
        key, _, value = part.partition("=")
        if key not in known or key in given or not value.isdecimal() or not name.endswith(")"):
            raise UsageError(f"There is no game {name!r}: {part!r} is not one of its parameters. {form}")
        given[key] = int(value)
    return given


def game_names() -> list[str]:
    """Return the names that can be made without parameters, sorted.

    OpenSpiel's games written in Python ("python_…") can be made too; they are not listed, because
    finding their names takes half a second.
    """
    return sorted({*NATIVE, *openspiel_names()})


def game_facts() -> list[GameSpec]:
    """Return the facts about the games made for language models: native ones, then ``RENDERED``."""
    return [make_game(name).spec for name in (*NATIVE, *RENDERED)]
