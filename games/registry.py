"""Every game by name: ``make_game("kuhn_poker(players=3)")``.

A native game is one line in ``NATIVE``: its name and a constructor that returns a ``Game``. A game from outside is
given to ``register`` in the same way. The constructor's parameters, whole numbers with defaults, are those that the
name may set. Every other name is OpenSpiel's.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable

from games.aliases import full_name
from games.common import plugins
from games.common.errors import UsageError
from games.native.judged_arithmetic import JudgedArithmetic
from games.native.lookup import Lookup
from games.native.lookup_alone import LookupAlone
from games.native.lookup_chain import LookupChain
from games.native.pair_arithmetic import PairArithmetic
from games.native.relay_arithmetic import RelayArithmetic
from games.openspiel.game import OpenSpielGame, openspiel_names
from games.spec import Game, GameSpec
from games.talk.debate import Debate
from games.talk.hidden_roles import HiddenRoles
from games.talk.simple_negotiation import SimpleNegotiation

NATIVE: dict[str, Callable[..., Game]] = {
    "lookup": Lookup,
    "lookup_alone": LookupAlone,
    "lookup_chain": LookupChain,
    "relay_arithmetic": RelayArithmetic,
    "pair_arithmetic": PairArithmetic,
    "judged_arithmetic": JudgedArithmetic,
    "simple_negotiation": SimpleNegotiation,
    "debate": Debate,
    "hidden_roles": HiddenRoles,
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


def register(name: str, make: Callable[..., Game]) -> None:
    """Add a game of a plugin, as a line of ``NATIVE`` would. Raises UsageError for a name that is taken."""
    plugins.register("games", name, make, built_in=game_names(installed=False))


def make_game(name: str) -> Game:
    """Return a new match of the game, by name or alias, reset with seed 0.

    Its spec has the game's own name. Raises UsageError for a wrong name or parameter.
    """
    name = full_name(name)
    base = name.split("(")[0]
    make = _constructor(base)
    if make is not None:
        game = make(**_parameters(name, base, make))
        if game.spec.name != name:  # a game has one name, by which roles, results and configurations know it
            raise UsageError(f"There is no game {name!r}: it is written {game.spec.name!r}.")
        return game
    return OpenSpielGame(name)


def with_submatches(names: Iterable[str]) -> list[str]:
    """Return the games, and after them the games of their submatches at any depth, each once."""
    games = dict.fromkeys(names)
    queue = list(games)
    while queue:
        children = [name for name in make_game(queue.pop(0)).spec.submatch_games if name not in games]
        games |= dict.fromkeys(children)
        queue += children
    return list(games)


def _constructor(base: str) -> Callable[..., Game] | None:
    """Return the constructor of a game that is not OpenSpiel's. Installed packages are asked last: it takes time."""
    if base in NATIVE:
        return NATIVE[base]
    made: dict[str, Callable[..., Game]] = plugins.loaded("games")
    if base in made or base in openspiel_names():
        return made.get(base)
    make: Callable[..., Game] | None = plugins.lookup("games", base)
    return make


def _parameters(name: str, base: str, make: Callable[..., Game]) -> dict[str, int]:
    """Return the parameters in the name of a game that is not OpenSpiel's."""
    allowed = list(inspect.signature(make).parameters)
    form = f"It is written {base}({', '.join(f'{key}=NUMBER' for key in allowed)}), each optional." if allowed else ""
    parameters: dict[str, int] = {}
    if name == base:
        return parameters
    if not allowed:
        raise UsageError(f"There is no game {name!r}: {base} takes no parameters.")
    for part in name[len(base) :].removeprefix("(").removesuffix(")").split(","):
        key, _, value = part.partition("=")
        if key not in allowed or key in parameters or not value.isdecimal() or not name.endswith(")"):
            raise UsageError(f"There is no game {name!r}: {part!r} is not one of its parameters. {form}")
        parameters[key] = int(value)
    return parameters


def game_names(installed: bool = True) -> list[str]:
    """Return the names of games that need no parameters, sorted; plugins' too unless ``installed`` is False.

    OpenSpiel's games written in Python ("python_…") can be made too; they are not listed, because
    importing them takes half a second.
    """
    return sorted({*NATIVE, *openspiel_names(), *(plugins.names("games") if installed else ())})


def game_facts() -> list[GameSpec]:
    """Return the facts about the games made for language models: native ones, plugins', then ``RENDERED``."""
    return [make_game(name).spec for name in (*NATIVE, *plugins.names("games"), *RENDERED)]
