"""The base of games whose chance is data: one match that draws chance from its own generator, or is dealt by others.

A subclass says what chance may do next (``chance_outcomes``, ``apply_chance``), what the seat to act may do
(``_options``), what an action does (``_play``), and what has been paid so far (``returns``). All that it holds must be
immutable, so that copies may share it.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from typing import Self

from games.common.seeds import derive_seed
from games.spec import Choices, FreeText, GameSpec


def numbers_from(seed: int, place: int) -> random.Random:
    """Return the generator of a seed after its first ``place`` numbers: one stream from which several moves are drawn.

    Games that drew all their chance from one generator keep their deals by it.
    """
    stream = random.Random(seed)
    for _ in range(place):
        stream.random()
    return stream


class DealtGame(ABC):
    """One match of a game whose chance is data."""

    spec: GameSpec
    _seed: int | None = None  # of chance; None: the caller deals
    _draws = 0  # of chance so far
    _paid_before: tuple[float, ...] = ()  # returns before the last action; () before the first

    def reset(self, seed: int) -> None:
        """Start a new match; ``seed`` fixes every chance event in it."""
        self._seed, self._draws, self._paid_before = seed, 0, ()
        self._begin()
        self._deal()

    def undealt(self) -> Self:
        """Return a new match before chance's first move. Neither it nor its copies ever draw chance themselves."""
        match = self.copy()
        match._seed, match._paid_before = None, ()
        match._begin()
        return match

    def chance_outcomes(self) -> tuple[tuple[str, float], ...]:
        """Return the outcomes of the chance move that is next, with probabilities that sum to one; () for none."""
        return ()

    def apply_chance(self, outcome: str) -> None:
        """Let chance have one of ``chance_outcomes()``. Raises ValueError where chance has no move."""
        raise ValueError(f"chance does not move here, so {outcome!r} cannot happen")

    def actions(self) -> Choices | FreeText:
        """Return the legal actions with their ids."""
        return Choices(self.legal_actions(), self.legal_ids())

    def legal_actions(self) -> tuple[str, ...]:
        """Return the legal actions; where words are asked for, some that are read."""
        return tuple([label for label, _ in self._options()])

    def legal_ids(self) -> tuple[int, ...]:
        """Return the ids of ``legal_actions()``."""
        return tuple([number for _, number in self._options()])

    def apply(self, action: str) -> None:
        """Play an action, then let chance move. Raises ValueError for one that is not legal."""
        if not self._is_legal(action):
            raise ValueError(f"{action!r} is not legal here; legal: {', '.join(self.legal_actions()) or 'nothing'}.")
        self._paid_before = self.returns()
        self._play(action)
        self._deal()

    def rewards(self) -> tuple[float, ...]:
        """Return what the last action paid to each seat."""  # [seats]
        before = self._paid_before or (0.0,) * self.spec.seats
        return tuple([now - then for now, then in zip(self.returns(), before, strict=True)])

    def copy(self) -> Self:
        """Return an independent match in the same position."""
        match = type(self).__new__(type(self))
        match.__dict__.update(self.__dict__)  # all immutable
        return match

    def random_action(self, rng: random.Random) -> str:
        """Return one of ``legal_actions()``, drawn uniformly: what a script ``random`` plays."""
        return rng.choice(self.legal_actions())

    def _deal(self) -> None:
        """Let chance move as long as it is its turn, unless others deal."""
        while self._seed is not None and (outcomes := self.chance_outcomes()):
            names, weights = zip(*outcomes, strict=True)
            self.apply_chance(self._generator(self._seed).choices(names, weights)[0])
            self._draws += 1

    def _generator(self, seed: int) -> random.Random:
        """Return the generator from which chance's next move is drawn: each move has its own."""
        return random.Random(derive_seed(seed, self._draws))

    def _is_legal(self, action: str) -> bool:
        asked = self.actions()
        return asked.read(action) == action if isinstance(asked, FreeText) else action in asked.labels

    @abstractmethod
    def to_act(self) -> int | None:
        """Return the seat whose turn it is, or None when the match is over."""

    @abstractmethod
    def observe(self, seat: int) -> str:
        """Return as text all that the seat knows."""

    @abstractmethod
    def information_state(self, seat: int) -> str:
        """Return a key that is equal for exactly those positions that the seat cannot distinguish."""

    @abstractmethod
    def returns(self) -> tuple[float, ...]:
        """Return the sum of all rewards so far, by seat."""  # [seats]

    @abstractmethod
    def _begin(self) -> None:
        """Start a new match, before chance's first move."""

    @abstractmethod
    def _options(self) -> list[tuple[str, int]]:
        """Return the labels of the legal actions with their ids; [] when over."""

    @abstractmethod
    def _play(self, action: str) -> None:
        """Play a legal action."""
