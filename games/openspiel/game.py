"""Any OpenSpiel game as a Game (Lanctot et al., 2019, arXiv:1908.09453)."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Mapping
from typing import Any, Self

import pyspiel

from games.common.errors import NotEnumerable, UsageError, unknown_name
from games.openspiel.enumeration import deciding_states
from games.openspiel.positions import Position, PositionTree
from games.openspiel.probe import check_parameters
from games.openspiel.renderers import renderer_for
from games.spec import Choices, GameSpec, Utility

_DYNAMICS = pyspiel.GameType.Dynamics
_CHANCE = pyspiel.GameType.ChanceMode
_PERFECT = pyspiel.GameType.Information.PERFECT_INFORMATION
_UTILITIES = {getattr(pyspiel.GameType.Utility, utility.name): utility for utility in Utility}

# Best joint return per seat, by OpenSpiel's canonical name.
_OPTIMA = {"tiny_hanabi()": 10.0}  # Foerster et al., 2019, arXiv:1811.01458, figure 2


def openspiel_names() -> list[str]:
    """Return the names that load without parameters, sorted; python games once they are imported."""
    return sorted(
        game_type.short_name
        for game_type in pyspiel.registered_games()
        if game_type.default_loadable and game_type.dynamics != _DYNAMICS.MEAN_FIELD
    )


def load_pyspiel(name: str) -> Any:
    """Return the turn-based ``pyspiel.Game`` of a name such as "kuhn_poker(players=3)".

    Raises UsageError for an unknown name, wrong parameters, or a game that cannot be played as one
    match between seats.
    """
    return _rules_of(name).game


class _Rules:
    """The loaded game, position tree and spec that all matches of one game name share.

    A few games (negotiation, tarok) draw their deal from a generator inside the game object. Those
    are reloaded for each match, with ``rng_seed``, so that no match draws from another's generator.
    """

    def __init__(self, name: str, rng_seed: int | None = None) -> None:
        source = _load_source(name)
        if rng_seed is not None:
            source = pyspiel.load_game(source.get_type().short_name, {**source.get_parameters(), "rng_seed": rng_seed})
        game_type = source.get_type()
        self.rng_seed = rng_seed
        simultaneous = game_type.dynamics == _DYNAMICS.SIMULTANEOUS
        self.game = pyspiel.convert_to_turn_based(source) if simultaneous else source
        self.sampled = _is_sampled(source)
        try:
            self.tree = PositionTree(self.game, renderer_for(self.game))
        except pyspiel.SpielError as error:
            raise UsageError(f"OpenSpiel's {name} cannot be played by numbered actions: {error}") from error
        self.spec = GameSpec(
            name=name,
            seats=source.num_players(),
            num_actions=self.game.num_distinct_actions(),
            max_turns=self.game.max_game_length(),
            min_return=source.min_utility(),
            max_return=source.max_utility(),
            utility=_UTILITIES[game_type.utility],
            perfect_information=game_type.information == _PERFECT and not simultaneous,
            has_chance=game_type.chance_mode != _CHANCE.DETERMINISTIC,
            optimum=_OPTIMA.get(str(source)),
        )


@functools.cache
def _rules_of(name: str) -> _Rules:
    return _Rules(name)


def _load_source(name: str) -> Any:
    """Return the ``pyspiel.Game`` as OpenSpiel defines it. Raises UsageError."""
    base = name.split("(")[0]
    if base not in pyspiel.registered_names():
        import open_spiel.python.games  # noqa: F401  # registers the games written in Python; slow, so only now

        if base not in pyspiel.registered_names():
            raise unknown_name("game", base, openspiel_names(), "`league games` lists them.")
    game_type = next(entry for entry in pyspiel.registered_games() if entry.short_name == base)
    if game_type.dynamics == _DYNAMICS.MEAN_FIELD:
        raise UsageError(
            f"{base} is a mean-field game: it has a population, not seats, so no match of it can be played."
        )
    _check_parameters(name, game_type)
    try:
        source = pyspiel.load_game(name)
    except pyspiel.SpielError as error:
        raise UsageError(f"OpenSpiel cannot make the game {name!r}: {str(error).splitlines()[0]}") from error
    if _is_sampled(source) and "rng_seed" not in game_type.parameter_specification:
        raise UsageError(f"{base} hides its chance moves and takes no rng_seed, so no match of it could be replayed.")
    return source


def _is_sampled(source: Any) -> bool:
    return bool(source.get_type().chance_mode == _CHANCE.SAMPLED_STOCHASTIC)


def _check_parameters(name: str, game_type: Any) -> None:
    """Raise UsageError for the mistakes that can be described better than OpenSpiel does."""
    try:
        parameters = pyspiel.game_parameters_from_string(name)
    except pyspiel.SpielError as error:
        example = 'Write parameters as in "kuhn_poker(players=3)".'
        raise UsageError(f"The game name {name!r} cannot be read: {error} {example}") from error
    for parameter in parameters:
        if parameter != "name" and parameter not in game_type.parameter_specification:
            raise unknown_name(f"parameter of {game_type.short_name}", parameter, game_type.parameter_specification)
    fewest, most = game_type.min_num_players, game_type.max_num_players
    players = parameters.get("players", fewest)
    if isinstance(players, int) and not fewest <= players <= most:
        raise UsageError(f"{game_type.short_name} is for {fewest} to {most} players, not {players}.")
    check_parameters(name, parameters, game_type.parameter_specification)


class OpenSpielGame:
    """One match of an OpenSpiel game.

    Simultaneous games are played turn by turn through ``pyspiel.convert_to_turn_based``. Observations,
    labels and information states are those of ``games.openspiel.renderers``. Raises UsageError for a wrong name.
    A match is reset with ``seed`` when it is made.
    """

    __slots__ = ("_generator", "_position", "_rules")

    def __init__(self, name: str, seed: int = 0) -> None:
        self._rules = _rules_of(name)
        self.reset(seed)

    @classmethod
    def from_state(cls, name: str, state: Any, seed: int = 0) -> Self:
        """Return a match at the position of ``state``, a state of ``load_pyspiel(name)``.

        If chance is to move there, it moves; ``seed`` fixes that and every later chance event.
        """
        match = cls(name, seed)
        if match._rules.sampled:
            raise UsageError(f"{name} hides its chance moves, so a position of it cannot be reached again.")
        tree = match._rules.tree
        match._position, match._generator = tree.settle(tree.reached(state), match._generator)
        return match

    @classmethod
    def _at(cls, rules: _Rules, position: Position, generator: int) -> Self:
        match = object.__new__(cls)
        match._rules, match._position, match._generator = rules, position, generator
        return match

    @property
    def spec(self) -> GameSpec:
        """The facts about this game."""
        return self._rules.spec

    @property
    def pyspiel_game(self) -> Any:
        """The turn-based ``pyspiel.Game`` that every match of this name shares."""
        return self._rules.game

    @property
    def tree(self) -> PositionTree | None:
        """The positions that every match of this name shares; None where OpenSpiel hides the game's chance moves."""
        return None if self._rules.sampled else self._rules.tree

    def at(self, position: Position) -> Self:
        """Return a match at a position of ``tree``, whose generator is at its start."""
        return self._at(self._rules, position, 0)

    def pyspiel_state(self) -> Any:
        """Return a ``pyspiel.State`` of this position; the caller may change it."""
        return self._position.state.clone()

    def reset(self, seed: int) -> None:
        """Start a new match; ``seed`` fixes every chance event in it."""
        if self._rules.sampled:
            self._rules = _Rules(self._rules.spec.name, rng_seed=seed & 0x7FFFFFFF)
        self._position, self._generator = self._rules.tree.settle(self._rules.tree.root, seed)

    def to_act(self) -> int | None:
        """Return the seat whose turn it is, or None when the match is over."""
        return self._position.seat

    def actions(self) -> Choices:
        """Return the legal actions as distinct strings, in the order of their ids, which are OpenSpiel's."""
        return self._position.choices

    def legal_actions(self) -> tuple[str, ...]:
        """Return the legal actions as distinct strings, in the order of their ids."""
        return self._position.choices.labels

    def legal_ids(self) -> tuple[int, ...]:
        """Return OpenSpiel's ids of ``legal_actions()``."""
        return self._position.choices.ids

    def observe(self, seat: int) -> str:
        """Return as text all that ``seat`` knows."""
        return self._position.text(seat)

    def hidden(self, seat: int) -> str:
        """Return what the seat is not shown, where the game's renderer knows it; "" elsewhere."""
        tell = self._rules.tree.renderer.hidden
        return tell(self._position.state, seat) if tell else ""

    def is_public(self, line: str) -> bool:
        """Return whether a line is common knowledge: all are on a board, and elsewhere the game's renderer says so."""
        tell = self._rules.tree.renderer.is_public
        return self.spec.perfect_information if tell is None else tell(line)

    def eligible(self) -> tuple[bool, ...]:
        """Return which moves bear on something that came about, where the game's renderer says so; else all do."""
        state, mark = self._position.state, self._rules.tree.renderer.eligible
        moves = [move for move in state.full_history() if move.player >= 0]
        if mark is None:
            return (True,) * len(moves)
        labels = tuple([state.action_to_string(move.player, move.action) for move in moves])
        return mark(labels, self._position.seat is None)

    def information_state(self, seat: int) -> str:
        """Return OpenSpiel's information-state string, or the renderer's key in its place."""
        return self._position.key(seat)

    def apply(self, action: str) -> None:
        """Play a legal action, then let chance move. Raises ValueError for any other string."""
        child = self._position.children.get(action)
        if child.__class__ is not Position:  # chance moves next, or the position is new, or the action is wrong
            tree = self._rules.tree
            child, self._generator = tree.settle(tree.after(self._position, action), self._generator)
        self._position = child

    def rewards(self) -> tuple[float, ...]:
        """Return what the last ``apply``, with the chance that followed it, paid to each seat."""
        return self._position.rewards

    def returns(self) -> tuple[float, ...]:
        """Return the sum of all rewards so far, by seat."""
        return self._position.returns

    def scripts(self) -> Mapping[str, Callable[[random.Random], str]]:
        """Return the scripted players that the game's renderer has; none for most games."""

        def play(script: Callable[[Any, random.Random], int], rng: random.Random) -> str:
            choices = self._position.choices
            return choices.labels[choices.ids.index(script(self._position.state, rng))]

        return {name: functools.partial(play, script) for name, script in self._rules.tree.renderer.scripts.items()}

    def copy(self) -> Self:
        """Return an independent match in the same position, with its generator in the same state."""
        return self._at(self._rules, self._position, self._generator)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the name, the moves and the generator; loading finds the tree or builds it again."""
        rules = self._rules
        return _replay, (rules.spec.name, rules.rng_seed, self._position.state.history(), self._generator)


def _replay(name: str, rng_seed: int | None, history: list[int], generator: int) -> OpenSpielGame:
    rules = _rules_of(name) if rng_seed is None else _Rules(name, rng_seed)
    return OpenSpielGame._at(rules, _position(rules, history), generator)


def _position(rules: _Rules, history: list[int]) -> Position:
    """Return the position after a history that does not end with chance to move."""
    node = rules.tree.follow(history)
    assert isinstance(node, Position), f"chance is to move after {history}"
    return node


def information_state(name: str, state: Any, seat: int) -> str:
    """Return ``OpenSpielGame.information_state(seat)`` in ``state``, a state of ``load_pyspiel(name)``.

    For most games that is ``state.information_state_string(seat)``; for board games it is the board.
    """
    return _rules_of(name).tree.renderer.key(state, seat)


def decision_points(name: str, limit: int) -> dict[tuple[int, str], OpenSpielGame]:
    """Return one position for each (seat, information state) in which a seat decides.

    Raises NotEnumerable as ``games.openspiel.enumeration.deciding_states`` does, and for hidden chance moves.
    """
    rules = _rules_of(name)
    if rules.sampled:
        raise NotEnumerable(f"{name} hides its chance moves, so its positions cannot be enumerated.")
    states = deciding_states(name, rules.game, rules.tree.renderer, limit)
    return {
        point: OpenSpielGame._at(rules, _position(rules, state.history()), generator=0)
        for point, state in states.items()
    }
