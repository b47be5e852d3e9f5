"""Every game by name: ``make_game("kuhn_poker(players=3)")``.

A native game is one line in ``NATIVE``: its name and a constructor that returns a ``Game``. A game from outside is
given to ``register`` in the same way. The constructor's parameters, whole numbers with defaults, are those that the
name may set. A wrapper is a line in ``WRAPPERS``, and its name holds that of the game inside: ``renamed(kuhn_poker)``.
A name with a colon, as ``textarena:TicTacToe-v0``, is a game of the library that stands before it (``games.outside``).
Every other name is OpenSpiel's.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

from games.aliases import full_name
from games.common import plugins
from games.common.errors import UsageError
from games.native.judged_arithmetic import JudgedArithmetic
from games.native.lookup import Lookup
from games.native.lookup_alone import LookupAlone
from games.native.lookup_chain import LookupChain
from games.native.pair_arithmetic import PairArithmetic
from games.native.recall import Recall
from games.native.relay_arithmetic import RelayArithmetic
from games.native.repeated_kuhn import RepeatedKuhn
from games.native.stop_or_go import StopOrGo
from games.native.team_race import TeamRace
from games.native.throw import Throw
from games.openspiel.game import OpenSpielGame, openspiel_names
from games.spec import GAME_METHODS, Game, GameSpec
from games.talk.debate import Debate
from games.talk.hidden_roles import HiddenRoles
from games.talk.odeen import Odeen
from games.talk.public_goods import PublicGoods
from games.talk.reference import ReferenceGame
from games.talk.signalling import Signalling
from games.talk.simple_negotiation import SimpleNegotiation
from games.talk.twenty_questions import TwentyQuestions
from games.tasks.find_number import FindNumber
from games.tasks.programs import Programs
from games.tasks.proposers.challenge import ChallengeGame
from games.tasks.proposers.inject_repair import InjectRepair
from games.tasks.proposers.propose_programs import ProposePrograms
from games.tasks.proposers.propose_sums import ProposeSums
from games.tasks.repair import Repair
from games.tasks.sums import Sums
from games.wrappers.advised import Advised
from games.wrappers.forewarned import Forewarned
from games.wrappers.informed import Informed
from games.wrappers.injected import Injected
from games.wrappers.late import Late
from games.wrappers.noisy import Noisy
from games.wrappers.paraphrased import Paraphrased
from games.wrappers.permuted import Permuted
from games.wrappers.remembered import Remembered
from games.wrappers.renamed import Renamed
from games.wrappers.repeated import Repeated
from games.wrappers.replaced import Replaced
from games.wrappers.retried import Retried
from games.wrappers.worded import Worded
from games.wrappers.wrapper import Wrapper

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
    "public_goods": PublicGoods,
    "twenty_questions": TwentyQuestions,
    "odeen": Odeen,
    "signalling": Signalling,
    "reference": ReferenceGame,
    "repeated_kuhn_poker": RepeatedKuhn,
    "team_race": TeamRace,
    "throw": Throw,
    "stop_or_go": StopOrGo,
    "recall": Recall,
    "sums": Sums,
    "programs": Programs,
    "repair": Repair,
    "find_number": FindNumber,
    "propose_sums": ProposeSums,
    "propose_programs": ProposePrograms,
    "inject_repair": InjectRepair,
    "challenge": ChallengeGame,
}

WRAPPERS: dict[str, type[Wrapper]] = {
    wrapper.title: wrapper
    for wrapper in (
        Renamed,
        Permuted,
        Paraphrased,
        Noisy,
        Injected,
        Remembered,
        Replaced,
        Late,
        Informed,
        Worded,
        Forewarned,
    )
}


# Games of whole matches of another game: several attempts at one deal, and what a text changes.
AROUND: dict[str, type[Wrapper]] = {wrapper.title: wrapper for wrapper in (Retried, Repeated, Advised)}


def _pettingzoo(name: str) -> Game:
    from games.outside.pettingzoo_game import pettingzoo_game  # its libraries are slow to import

    return pettingzoo_game(name)


def _textarena(name: str) -> Game:
    from games.outside.textarena_game import TextArenaGame  # an extra

    return TextArenaGame(name)


OUTSIDE: dict[str, Callable[[str], Game]] = {"pettingzoo": _pettingzoo, "textarena": _textarena}  # by library

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
    "bargaining",
    "colored_trails",
    "hanabi(players=2,colors=1,ranks=3,hand_size=2,max_information_tokens=2,max_life_tokens=1)",
)


def _wrong_game(make: Callable[..., Game]) -> str:
    """Return what is wrong with a plugin's constructor, in a clause; "" for nothing."""
    missing = [name for name in GAME_METHODS if isinstance(make, type) and not callable(getattr(make, name, None))]
    if missing:
        return f"its class has no {', '.join(missing)}: a game has the methods of games.spec.Game"
    for name, parameter in inspect.signature(make).parameters.items():
        if type(parameter.default) is not int:
            default = "has no default" if parameter.default is parameter.empty else f"is {parameter.default!r}"
            return f"its parameter {name} {default}: parameters are whole numbers with defaults, which its name may set"
    return ""


plugins.add_group("games", "game", lambda make: make if callable(make) else None, _wrong_game)
plugins.add_group("environments", "PettingZoo environment", lambda make: make if callable(make) else None, dotted=True)


def register(name: str, make: Callable[..., Game]) -> None:
    """Add a game of a plugin, as a line of ``NATIVE`` would. Raises UsageError for a name that is taken."""
    plugins.register("games", name, make, built_in=game_names(installed=False))


def register_environment(name: str, make: Callable[..., Any]) -> None:
    """Add a PettingZoo environment of a plugin: ``pettingzoo:NAME(key=value)`` calls ``make(key=value)``.

    The name is as for import, ``my_envs.auction``. Raises UsageError for a name that is taken.
    """
    plugins.register("environments", name, make)


def make_game(name: str) -> Game:
    """Return a new match of the game, by name or alias, reset with seed 0.

    Its spec has the game's own name. Raises UsageError for a wrong name or parameter.
    """
    name = full_name(name)
    base = name.split("(")[0]
    if base in WRAPPERS or base in AROUND:
        return _wrapped(name, base)
    library, colon, _ = base.partition(":")
    if colon and library in OUTSIDE:
        return _so_named(OUTSIDE[library](name), name)
    make = _constructor(base)
    if make is not None:
        return _so_named(make(**_parameters(name, base, make)), name)
    return OpenSpielGame(name)


def _wrapped(name: str, base: str) -> Game:
    """Return a match of a wrapper. Raises UsageError for a name without a game, or with a wrong one or parameter."""
    make = WRAPPERS.get(base) or AROUND[base]
    known = make.parameters()
    example = ",".join(["kuhn_poker", *(f"{key}={value}" for key, value in known.items())])
    form = f"It is written {base}(GAME), for example {base}({example})."
    inner, *settings = _parts(name[len(base) + 1 : -1]) if name.startswith(f"{base}(") and name.endswith(")") else [""]
    parameters: dict[str, int] = {}
    for setting in settings:
        key, _, value = setting.partition("=")
        if key not in known or key in parameters or not value.isdecimal() or len(value) > 9:
            raise UsageError(f"There is no game {name!r}: {setting!r} is not one of {base}'s parameters. {form}")
        parameters[key] = int(value)
    if not inner:
        raise UsageError(f"There is no game {name!r}: {base} wraps another game. {form}")
    inside = make_game(inner)
    game = make(inside, **known | parameters)
    written = f"{base}({','.join([inside.spec.name, *settings])})"
    if game.spec.name != written:
        raise UsageError(f"There is no game {name!r}: it is written {game.spec.name!r}.")
    return game


def _so_named(game: Game, name: str) -> Game:
    """Return a game that has this name: there is one, by which roles, results and configurations know it."""
    if game.spec.name != name:
        raise UsageError(f"There is no game {name!r}: it is written {game.spec.name!r}.")
    return game


def own_name(name: str) -> str:
    """Return the game's own name for a name with parameters in another order, or at their defaults.

    Of OpenSpiel's games and wrappers every name stays. Raises UsageError for a wrong parameter.
    """
    base = name.split("(")[0]
    make = None if base in WRAPPERS or base in AROUND or ":" in base else _constructor(base)
    return name if make is None else make(**_parameters(name, base, make)).spec.name


def _parts(text: str) -> list[str]:
    """Return the parts of a text between the commas that stand in no bracket."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


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
    if base in made or base in _of_openspiel():
        return made.get(base)
    make: Callable[..., Game] | None = plugins.lookup("games", base)
    return make


@functools.cache
def _of_openspiel() -> frozenset[str]:
    """Return OpenSpiel's names once: sorting its list for every match took longer than the matches.

    A game written in Python that is imported later is missing here, and is found all the same, after the plugins.
    """
    return frozenset(openspiel_names())


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
