"""The positions of an OpenSpiel game as a tree that all its matches share.

Asking pyspiel for legal actions, their names and a seat's view costs tens of microseconds; a small game
visits the same few hundred positions again and again. Each is computed once and linked to its parent, so
that a move in a small game is one dictionary look-up. Beyond ``NODE_LIMIT`` positions new ones are still
built, but not cached. Play never changes a node, so matches cannot affect each other.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from itertools import accumulate
from typing import Any, Protocol, Self, runtime_checkable

from games.openspiel.renderers import Renderer
from games.spec import Choices

NODE_LIMIT = 50_000
_MASK = (1 << 64) - 1


def next_random(generator: int) -> tuple[int, float]:
    """Return SplitMix64's next state and a number in [0, 1) (Steele, Lea and Flood, 2014).

    Seeding Python's generator takes longer than a whole match of Kuhn poker; here the seed is the
    state, and copying it costs nothing.
    """
    state = (generator + 0x9E3779B97F4A7C15) & _MASK
    mixed = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
    return state, ((mixed ^ (mixed >> 31)) >> 11) * 2.0**-53


class Position:
    """A position where a seat decides, or the end of a match (``seat`` None, nothing legal)."""

    __slots__ = ("_keys", "_renderer", "_texts", "children", "choices", "returns", "rewards", "seat", "state")

    def __init__(self, state: Any, renderer: Renderer, before: tuple[float, ...], returns: tuple[float, ...]) -> None:
        self.state = state  # pyspiel's; shared, so clone it before applying anything
        self.seat: int | None = None if state.is_terminal() else state.current_player()
        ids: tuple[int, ...] = () if self.seat is None else tuple(state.legal_actions())
        self.choices = Choices(distinct([renderer.label(state, action) for action in ids], ids), ids)
        self.children: dict[str, Position | Chance | None] = dict.fromkeys(self.choices.labels)
        self.returns = returns  # [seats]
        self.rewards = tuple(new - old for new, old in zip(returns, before, strict=True))  # [seats]
        self._renderer = renderer
        self._texts: list[str | None] = [None] * len(returns)
        self._keys: list[str | None] = [None] * len(returns)

    def text(self, seat: int) -> str:
        """Return the observation of ``seat``."""
        text = self._texts[seat]
        if text is None:
            text = self._texts[seat] = self._renderer.observe(self.state, seat)
        return text

    def key(self, seat: int) -> str:
        """Return the information state of ``seat``."""
        key = self._keys[seat]
        if key is None:
            key = self._keys[seat] = self._renderer.key(self.state, seat)
        return key


class Chance:
    """A position where chance moves. ``before`` holds the returns at the decision that led here."""

    __slots__ = ("before", "children", "cumulative", "outcomes", "state")

    def __init__(self, state: Any, before: tuple[float, ...]) -> None:
        self.state = state
        self.before = before  # [seats]
        self.outcomes, probabilities = zip(*state.chance_outcomes(), strict=True)
        self.cumulative = list(accumulate(probabilities))
        self.cumulative[-1] = 1.0  # against rounding, so that every number below 1 selects an outcome
        self.children: list[Position | Chance | None] = [None] * len(self.outcomes)


class PositionTree:
    """All positions reached so far of one game, from ``root`` down."""

    def __init__(self, game: Any, renderer: Renderer, node_limit: int = NODE_LIMIT) -> None:
        """Start the tree of a turn-based ``pyspiel.Game``."""
        self.renderer = renderer
        self._node_limit = node_limit
        self._nodes = 1
        self._zeros = (0.0,) * game.num_players()
        # The returns of a game that pays only at the end are read only there.
        self._pays_late = game.get_type().reward_model == type(game.get_type().reward_model).TERMINAL
        self.root = self._node(game.new_initial_state(), self._zeros)

    def after(self, position: Position, label: str) -> Position | Chance:
        """Return the node after a legal action. Raises ValueError for any other string."""
        try:
            child = position.children[label]
        except KeyError:
            labels = position.choices.labels
            legal = f"legal: {', '.join(labels)}" if labels else "the match is over"
            raise ValueError(f"{label!r} is not a legal action here; {legal}") from None
        if child is None:
            choices = position.choices
            child = self._child(position.state, choices.ids[choices.labels.index(label)], position.returns)
            if self._may_cache():
                position.children[label] = child
        return child

    def after_chance(self, chance: Chance, index: int) -> Position | Chance:
        """Return the node after the chance outcome ``chance.outcomes[index]``."""
        child = chance.children[index]
        if child is None:
            child = self._child(chance.state, chance.outcomes[index], chance.before)
            if self._may_cache():
                chance.children[index] = child
        return child

    def settle(self, node: Position | Chance, generator: int) -> tuple[Position, int]:
        """Let chance move until a seat must decide or the match is over; return the generator too."""
        while isinstance(node, Chance):
            generator, number = next_random(generator)
            index = bisect_right(node.cumulative, number)
            node = node.children[index] or self.after_chance(node, index)
        return node, generator

    def follow(self, history: list[int]) -> Position | Chance:
        """Return the node that pyspiel's ``state.history()``, chance included, leads to."""
        node = self.root
        for action in history:
            if isinstance(node, Chance):
                node = self.after_chance(node, node.outcomes.index(action))
            else:
                node = self.after(node, node.choices.labels[node.choices.ids.index(action)])
        return node

    def reached(self, state: Any) -> Position | Chance:
        """Return the node of a state; once no more are kept, the ones on the way to it are not built."""
        if self._pays_late and self._nodes >= self._node_limit and not state.is_terminal():
            return self._node(state.clone(), self._zeros)
        return self.follow(state.history())

    def _child(self, state: Any, action: int, before: tuple[float, ...]) -> Position | Chance:
        state = state.clone()
        state.apply_action(action)
        return self._node(state, before)

    def _node(self, state: Any, before: tuple[float, ...]) -> Position | Chance:
        if state.is_chance_node():
            return Chance(state, before)
        unpaid = self._pays_late and not state.is_terminal()
        returns = self._zeros if unpaid else tuple(map(float, state.returns()))
        return Position(state, self.renderer, before, returns)

    def _may_cache(self) -> bool:
        """Count one more cached node; return False when ``node_limit`` is reached."""
        if self._nodes >= self._node_limit:
            return False
        self._nodes += 1
        return True


def distinct(labels: list[str], ids: tuple[int, ...]) -> tuple[str, ...]:
    """Return the labels, with the action's id after each that occurs more than once."""
    if len(set(labels)) == len(labels):
        return tuple(labels)
    counts = Counter(labels)
    return tuple(
        label if counts[label] == 1 else f"{label} #{action}" for label, action in zip(labels, ids, strict=True)
    )


@runtime_checkable
class SharesPositions(Protocol):
    """A Game whose matches share their positions, so that a match is a path in a tree."""

    @property
    def tree(self) -> PositionTree | None:
        """The positions; None where the game hides its chance moves."""
        ...

    def at(self, position: Position) -> Self:
        """Return a match at one of them, whose generator is at its start."""
        ...
