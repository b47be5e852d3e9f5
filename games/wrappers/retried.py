"""``retried(GAME,attempts=3,pays=1)``: the same deal several times, and each attempt is shown the earlier ones.

``pays=0`` pays the last attempt; ``pays=1`` ends with the first success, an attempt that pays every seat the most there
is, and pays it, or else the last; ``pays=2`` pays the last attempt less the first. Chance falls alike in each attempt,
so that what differs is what the seats do. Who solves an attempt with probability p, whatever came before, is paid a
success with 1 − (1 − p)^attempts by ``pays=1``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from games.abilities import GivesHints
from games.common.errors import NotEnumerable, UsageError
from games.spec import Choices, FreeText, HasScripts, HasTools, IsSubmatch
from games.wrappers.wrapper import Kept, Wrapper

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from random import Random
    from typing import Self

    from games.spec import Game

LAST, FIRST_SUCCESS, IMPROVEMENT = range(3)  # what is paid
MOST_ATTEMPTS = 100


class _Attempt(NamedTuple):
    """An attempt that is over: what each seat saw at its end and was paid."""

    seen: tuple[str, ...]  # [seats]
    returns: tuple[float, ...]  # [seats]


class Retried(Wrapper):
    """One match of several attempts."""

    title = "retried"
    unit = "Attempt"  # what the seats are told is over
    keeps = frozenset({Kept.IDS, Kept.LABELS, Kept.CARDS})

    def __init__(self, inner: Game, attempts: int = 3, pays: int = FIRST_SUCCESS) -> None:
        """Play ``inner`` so often. Raises UsageError for a number of attempts or a payment that there is not."""
        name = self._name(inner.spec.name, {"attempts": attempts, "pays": pays})
        if not (2 <= attempts <= MOST_ATTEMPTS and LAST <= pays <= IMPROVEMENT):
            raise UsageError(
                f"There is no game {name!r}: attempts is 2 to {MOST_ATTEMPTS}, and pays is {LAST} (the last attempt), "
                f"{FIRST_SUCCESS} (the first success) or {IMPROVEMENT} (the last less the first)."
            )
        self._hold(inner, name, attempts, pays)

    def _hold(self, inner: Game, name: str, number: int, pays: int) -> None:
        """Take the game that is played ``number`` times. Raises UsageError for one that cannot be."""
        if inner.spec.submatch_games or isinstance(inner, HasTools | IsSubmatch):
            raise UsageError(
                f"{name}: games with tools or submatches cannot be {self.title}; take sums or find_number."
            )
        facts, spread = inner.spec, inner.spec.max_return - inner.spec.min_return
        self._inner, self._pays, self._seed = inner, pays, 0
        self._most, self._over, self._marks = number, tuple[_Attempt, ...](), tuple[bool, ...]()
        self._before = self._paid = (0.0,) * facts.seats
        self.spec = replace(
            facts,
            name=name,
            inner=facts.name,
            max_turns=number * facts.max_turns,
            min_return=-spread if pays == IMPROVEMENT else facts.min_return,
            max_return=spread if pays == IMPROVEMENT else facts.max_return,
            optimum=None if pays == IMPROVEMENT else facts.optimum,
            perfect_information=False,
            reward_names=(),
            alone="",
        )

    @property
    def attempt(self) -> int:
        """The attempt that the match is in, from 1."""
        return min(len(self._over) + 1, self._most)

    def reset(self, seed: int) -> None:
        """Begin the first attempt."""
        self._seed, self._over, self._marks = seed, (), ()
        self._before = self._paid = (0.0,) * self.spec.seats
        self._deal()

    def actions(self) -> Choices | FreeText:  # type: ignore[override]  # of words too, where the game inside has them
        """Return what the seat to act may do."""
        asked: Choices | FreeText = self._inner.actions()
        return asked

    def to_act(self) -> int | None:
        """Return the seat to act in the present attempt; None when the match is over."""
        return None if self._ended() else super().to_act()

    def past(self, seat: int) -> tuple[str, ...]:
        """Return the earlier attempts, each as the seat saw its end."""
        over = self._over[:-1] if self._ended() else self._over
        return tuple([self._told(number, attempt, seat) for number, attempt in enumerate(over, 1)])

    def observe(self, seat: int) -> str:
        """Return the earlier attempts, and what the seat sees of this one."""
        number = len(self._over) if self._ended() else len(self._over) + 1
        return "\n".join([*self.past(seat), f"{self.unit} {number} of {self._most}", super().observe(seat)])

    def hint(self, seat: int) -> str:
        """Return the hint of the game inside; "" where it gives none."""
        return self._inner.hint(seat) if isinstance(self._inner, GivesHints) else ""

    def information_state(self, seat: int) -> str:
        """Return the earlier attempts, and what the seat can tell apart in this one."""
        return "\n".join([*self.past(seat), str(len(self._over)), super().information_state(seat)])

    def apply(self, action: str) -> None:
        """Play an action; the next attempt begins where it ends one. Raises ValueError for one that is not legal."""
        if self._ended():
            raise ValueError(f"{action[:80]!r} is not legal: the match is over")
        self._inner.apply(action)
        self._before = self._paid
        if self._inner.to_act() is not None:
            return
        seen = tuple([self._inner.observe(seat) for seat in range(self.spec.seats)])
        self._over = (*self._over, _Attempt(seen, self._inner.returns()))
        if self._ended():
            self._paid = self._settled()
        else:
            self._marks += super().eligible()
            self._deal()

    def eligible(self) -> tuple[bool, ...]:
        """Return which moves of all attempts bear on something that came about; () where the game does not say."""
        return self._marks + super().eligible()

    def rewards(self) -> tuple[float, ...]:
        """Return what the last action paid: all of it comes with the last attempt's end."""
        return tuple([now - then for now, then in zip(self._paid, self._before, strict=True)])

    def returns(self) -> tuple[float, ...]:
        """Return what the match paid; 0 before its end."""
        return self._paid

    def scripts(self) -> Mapping[str, Callable[[Random], str]]:
        """Return the scripts of the game inside."""
        return self._inner.scripts() if isinstance(self._inner, HasScripts) else {}

    def undealt(self) -> Self:
        """Raise NotEnumerable: that chance falls alike in all attempts is not data."""
        raise NotEnumerable(f"{self.spec.name} deals each attempt alike, so its positions cannot be enumerated.")

    def _deal(self) -> None:
        """Begin the next attempt: chance falls as in the first."""
        self._inner.reset(self._seed)

    def _ended(self) -> bool:
        return len(self._over) == self._most or (self._pays == FIRST_SUCCESS and self._solved())

    def _solved(self) -> bool:
        return bool(self._over) and min(self._over[-1].returns) >= self.spec.max_return

    def _settled(self) -> tuple[float, ...]:
        first, last = self._over[0].returns, self._over[-1].returns
        if self._pays == IMPROVEMENT:
            return tuple([end - begin for begin, end in zip(first, last, strict=True)])
        return last

    def _told(self, number: int, attempt: _Attempt, seat: int) -> str:
        """Return an attempt as one line."""
        seen = " / ".join(attempt.seen[seat].split("\n"))
        return f"{self.unit} {number}: {seen}; paid {attempt.returns[seat]:g}"
