"""A match of an OpenSpiel game whose chance moves are data that the caller applies, as in ``games.spec.Enumerable``.

``OpenSpielGame`` draws chance itself, so that no player is ever asked for it. Exact measures of a game that is built on
an OpenSpiel game need its chance outcomes one by one.
"""

from __future__ import annotations

from typing import Self

from games.common.errors import NotEnumerable
from games.openspiel.game import OpenSpielGame
from games.openspiel.positions import Chance, Position, PositionTree
from games.spec import Choices, GameSpec


class UndealtGame:
    """One match of an OpenSpiel game, before or after chance's moves; copies share the game's tree of positions."""

    __slots__ = ("_game", "_node", "_tree", "spec")

    def __init__(self, game: OpenSpielGame) -> None:
        """Start before chance's first move. Raises NotEnumerable where OpenSpiel hides its chance moves."""
        if game.tree is None:
            raise NotEnumerable(f"{game.spec.name} hides its chance moves, so its positions cannot be enumerated.")
        self.spec: GameSpec = game.spec
        self._game = game
        self._tree: PositionTree = game.tree
        self._node: Position | Chance = game.tree.root

    def dealt(self) -> OpenSpielGame:
        """Return a match of the game itself at this position, in which a seat is to act or all is over."""
        return self._game.at(self._position())

    def chance_outcomes(self) -> tuple[tuple[str, float], ...]:
        """Return the outcomes of the chance move that is next, with their probabilities; () for none."""
        if isinstance(self._node, Position):
            return ()
        return tuple((str(outcome), probability) for outcome, probability in self._node.state.chance_outcomes())

    def apply_chance(self, outcome: str) -> None:
        """Let chance have one of ``chance_outcomes()``."""
        assert isinstance(self._node, Chance), "no chance move is next"
        self._node = self._tree.after_chance(self._node, self._node.outcomes.index(int(outcome)))

    def undealt(self) -> Self:
        """Return a new match before chance's first move."""
        match = self.copy()
        match._node = self._tree.root
        return match

    def reset(self, seed: int) -> None:
        """Go back to before chance's first move; ``seed`` decides nothing, as chance is moved from outside."""
        self._node = self._tree.root

    def to_act(self) -> int | None:
        """Return the seat whose turn it is; None when the match is over or chance is next."""
        return self._node.seat if isinstance(self._node, Position) else None

    def actions(self) -> Choices:
        """Return the legal actions as distinct strings, in the order of their ids."""
        return self._position().choices

    def legal_actions(self) -> tuple[str, ...]:
        """Return the legal actions as distinct strings, in the order of their ids."""
        return self._position().choices.labels

    def legal_ids(self) -> tuple[int, ...]:
        """Return OpenSpiel's ids of ``legal_actions()``."""
        return self._position().choices.ids

    def observe(self, seat: int) -> str:
        """Return as text all that ``seat`` knows."""
        return self._position().text(seat)

    def hidden(self, seat: int) -> str:
        """Return what the seat is not shown, where the game's renderer knows it; "" elsewhere."""
        tell = self._tree.renderer.hidden
        return tell(self._position().state, seat) if tell else ""

    def information_state(self, seat: int) -> str:
        """Return the renderer's key of what ``seat`` knows."""
        return self._position().key(seat)

    def apply(self, action: str) -> None:
        """Play a legal action; a chance move that follows is left open. Raises ValueError for any other string."""
        self._node = self._tree.after(self._position(), action)

    def rewards(self) -> tuple[float, ...]:
        """Return what the last move paid to each seat."""
        return self._position().rewards

    def returns(self) -> tuple[float, ...]:
        """Return the sum of all rewards so far, by seat."""
        return self._position().returns

    def copy(self) -> Self:
        """Return an independent match in the same position."""
        match = object.__new__(type(self))
        match.spec, match._game, match._tree, match._node = self.spec, self._game, self._tree, self._node
        return match

    def _position(self) -> Position:
        assert isinstance(self._node, Position), "chance is to move first"
        return self._node
