"""The base of all wrappers: a game of choices inside, whose match they pass through, and what they leave unchanged."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any, ClassVar, Self, cast

from games.abilities import MarksEligible, MarksPublic
from games.common.errors import NotEnumerable, UsageError
from games.openspiel.game import OpenSpielGame
from games.openspiel.undealt import UndealtGame
from games.spec import ChoiceGame, Choices, Enumerable, Game, GameSpec, HasTools, IsSubmatch, choice_game


class Kept(StrEnum):
    """What a wrapper leaves as it is in the game inside, after the same moves by number of action."""

    IDS = "the ids of the legal actions"
    LABELS = "the legal actions as they are written"
    RETURNS = "what is paid"
    INFORMATION = "which positions a seat can tell apart"
    OBSERVATIONS = "what a seat is shown"
    CARDS = "what a role is told"


class Wrapper:
    """A match of a wrapper. Everything that it does not change comes from the inner match."""

    title: ClassVar[str]  # the name before the bracket
    keeps: ClassVar[frozenset[Kept]]

    def __init__(self, inner: Game, **parameters: int) -> None:
        """Wrap a match of the inner game. Raises UsageError for one with words, tools or submatches."""
        if inner.spec.free_text or inner.spec.submatch_games or isinstance(inner, HasTools | IsSubmatch):
            raise UsageError(
                f"{self.title}({inner.spec.name}): only games of choices without tools and submatches can be wrapped, "
                "for example kuhn_poker."
            )
        self._inner: Any = choice_game(inner)
        self.spec: GameSpec = replace(inner.spec, name=self._name(inner.spec.name, parameters), inner=inner.spec.name)

    @classmethod
    def parameters(cls) -> dict[str, int]:
        """Return the parameters that a name may set, with their defaults."""
        _, *parameters = inspect.signature(cls).parameters.values()
        return {
            parameter.name: parameter.default for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD
        }

    @classmethod
    def _name(cls, inner: str, given: dict[str, int]) -> str:
        defaults = cls.parameters()
        settings = [f",{key}={value}" for key, value in given.items() if value != defaults[key]]
        return f"{cls.title}({inner}{''.join(settings)})"

    def reword(self, text: str) -> str:
        """Return how a text of the inner game's role cards reads here."""
        return text

    def reset(self, seed: int) -> None:
        """Start a new match; ``seed`` fixes every chance event in it."""
        self._inner.reset(seed)

    def to_act(self) -> int | None:
        """Return the seat whose turn it is, or None when the match is over."""
        return cast("int | None", self._inner.to_act())

    def actions(self) -> Choices:
        """Return the legal actions with their ids."""
        return Choices(self.legal_actions(), self.legal_ids())

    def legal_actions(self) -> tuple[str, ...]:
        """Return the legal actions as distinct strings, in the order of their ids."""
        return cast("tuple[str, ...]", self._inner.legal_actions())

    def legal_ids(self) -> tuple[int, ...]:
        """Return the ids of ``legal_actions()``."""
        return cast("tuple[int, ...]", self._inner.legal_ids())

    def observe(self, seat: int) -> str:
        """Return as text what ``seat`` is shown."""
        return str(self._inner.observe(seat))

    def is_public(self, line: str) -> bool:
        """Return whether a line is common knowledge in the inner game, where this one leaves its lines as they are."""
        inner = self._inner
        return Kept.OBSERVATIONS in self.keeps and isinstance(inner, MarksPublic) and inner.is_public(line)

    def eligible(self) -> tuple[bool, ...]:
        """Return which moves of the inner game bear on something that came about; () where it does not say."""
        return self._inner.eligible() if isinstance(self._inner, MarksEligible) else ()

    def information_state(self, seat: int) -> str:
        """Return a key that is equal for exactly those positions that ``seat`` cannot distinguish."""
        return str(self._inner.information_state(seat))

    def apply(self, action: str) -> None:
        """Play a legal action. Raises ValueError for any other string."""
        self._inner.apply(action)

    def rewards(self) -> tuple[float, ...]:
        """Return what the last ``apply`` paid to each seat."""
        return cast("tuple[float, ...]", self._inner.rewards())

    def returns(self) -> tuple[float, ...]:
        """Return the sum of all rewards so far, by seat."""
        return cast("tuple[float, ...]", self._inner.returns())

    def named_rewards(self) -> Mapping[str, tuple[float, ...]]:
        """Return what the last ``apply`` paid to each seat under the names of ``spec.reward_names``."""
        return cast("Mapping[str, tuple[float, ...]]", self._inner.named_rewards())

    def copy(self) -> Self:
        """Return an independent match in the same position, with its generator in the same state."""
        match = object.__new__(type(self))
        match.__dict__.update(self.__dict__)
        match._inner = self._inner.copy()
        return match

    def undealt(self) -> Self:
        """Return a new match before chance's first move. Raises NotEnumerable where the inner game gives no chance."""
        match = self.copy()
        match._inner = _undealt(self._inner)
        match._begin()
        return match

    def chance_outcomes(self) -> tuple[tuple[str, float], ...]:
        """Return the outcomes of the chance move that is next, with their probabilities; () for none."""
        return self._inner.chance_outcomes() if isinstance(self._inner, Enumerable) else ()

    def apply_chance(self, outcome: str) -> None:
        """Let chance have one of ``chance_outcomes()``."""
        self._inner.apply_chance(outcome)

    def _begin(self) -> None:
        """Forget what this wrapper remembers of a match."""


SAME_GAME = frozenset({Kept.IDS, Kept.RETURNS, Kept.INFORMATION})  # to who chooses by number of action


def unwrapped(match: Game) -> Game:
    """Return the match inside of all wrappers that leave the game the same, in other words at most."""
    while isinstance(match, Wrapper) and match.keeps >= SAME_GAME:
        match = match._inner
    return match


def _undealt(inner: ChoiceGame) -> Any:
    """Return the inner game before chance's first move. Raises NotEnumerable."""
    if isinstance(inner, OpenSpielGame):
        return UndealtGame(inner)
    if isinstance(inner, Enumerable):
        return inner.undealt()
    raise NotEnumerable(f"{inner.spec.name} does not give its chance as data, so its positions cannot be enumerated.")
