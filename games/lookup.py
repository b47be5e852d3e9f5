"""``lookup``: one seat answers a question over a knowledge base that it can only search.

The question is "teacher of Ann"; ``search`` returns the sentences that fit best, and the seat names the
person that they tell, or says that it does not know. Opened by another match it is a worker: it gets its
question from there, and its opener pays it. By itself it draws a question and pays 0.1 for an answer and 0.9 more
for the right one.
"""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Callable, Mapping
from typing import Self

from games.knowledge import UNKNOWN, Fact, check_size, knowledge_base
from games.names import game_name
from games.spec import GameSpec, Utility

FORMAT, CORRECT = 0.1, 0.9


class Lookup:
    """One match."""

    def __init__(self, people: int = 12, relations: int = 6) -> None:
        check_size(people, relations)
        self._size = people, relations
        self.spec = GameSpec(
            name=lookup_name(people, relations),
            seats=1,
            num_actions=people + 1,
            max_turns=1,
            min_return=0.0,
            max_return=1.0,
            utility=Utility.IDENTICAL,
            perfect_information=False,
            has_chance=True,
            optimum=1.0,
        )
        self.reset(0)

    def reset(self, seed: int) -> None:
        """Begin with a question drawn from the facts of a deal."""
        self._base = knowledge_base(seed, *self._size)
        self._question = random.Random(seed).choice(list(self._base.answers))
        self._opened = False
        self._told: tuple[tuple[str, str], ...] = ()  # calls and what they gave
        self._answer: str | None = None

    def open(self, text: str) -> None:
        """Take the question that another match asks. Raises ValueError for one that is not about a known fact."""
        relation, _, person = text.partition(" of ")
        if Fact(relation, person) not in self._base.answers:
            raise ValueError(f"{text!r} is not a question of {self.spec.name}")
        self._question, self._opened = Fact(relation, person), True

    def outcome(self) -> str:
        """Return the answer."""
        return self._answer or ""

    def to_act(self) -> int | None:
        """Return the only seat until it has answered."""
        return 0 if self._answer is None else None

    def legal_actions(self) -> tuple[str, ...]:
        """Return the people that were named in what was found, and that the answer is unknown."""
        if self._answer is not None:
            return ()
        words = set(re.findall(r"\w+", "\n".join(output for _, output in self._told)))
        return (*(name for name in self._base.people if name in words and name != self._question.person), UNKNOWN)

    def legal_ids(self) -> tuple[int, ...]:
        """Return the people's places, and the last id for unknown."""
        people = self._base.people
        return tuple(people.index(name) if name in people else len(people) for name in self.legal_actions())

    def observe(self, seat: int) -> str:
        """Return all that was found, newest last, and then the question."""
        return "\n".join([*(output for _, output in self._told), f"{self._question} is"])

    def information_state(self, seat: int) -> str:
        """Return the question and all calls with what they gave."""
        return "\n".join([*(f"{call}: {output}" for call, output in self._told), str(self._question)])

    def apply(self, action: str) -> None:
        """Answer. Raises ValueError for a name that was not found."""
        if action not in self.legal_actions():
            raise ValueError(f"{action!r} is not legal here; legal: {', '.join(self.legal_actions()) or 'nothing'}")
        self._answer = action

    def rewards(self) -> tuple[float, ...]:
        """Return what the answer paid; nothing where the opener pays."""
        if self._answer is None or self._opened:
            return (0.0,)
        return (FORMAT + CORRECT * (self._answer == self._base.answers[self._question]),)

    def returns(self) -> tuple[float, ...]:
        """Return the same: it is paid once."""
        return self.rewards()

    def copy(self) -> Self:
        """Return an independent match in the same position."""
        return copy.copy(self)

    def tools(self) -> Mapping[str, Callable[..., str]]:
        """Return ``search(words)``."""
        return {"search": self._base.search}

    def calls(self) -> tuple[str, ...]:
        """Return the searches that were not made yet for the question, its person and its relation."""
        made = {call for call, _ in self._told}
        texts = (str(self._question), self._question.person, self._question.relation)
        return tuple(call for call in map(_call, texts) if call not in made)

    def told(self, call: str, output: str) -> None:
        """Remember what a call gave."""
        self._told = (*self._told, (call, output))

    def scripts(self) -> Mapping[str, Callable[[random.Random], str]]:
        """Return ``optimal``, which reads what it found, and ``poor``, which names the first person in it."""
        return {"optimal": self._optimal, "poor": self._poor}

    def _optimal(self, _rng: random.Random) -> str:
        found = re.search(rf"\b{self._question} is (\w+)", "\n".join(output for _, output in self._told))
        return found[1] if found else UNKNOWN if self._told else _call(str(self._question))

    def _poor(self, _rng: random.Random) -> str:
        return self.legal_actions()[0] if self._told else _call(self._question.person)


def lookup_name(people: int, relations: int) -> str:
    """Return the name of the game with knowledge bases of a size."""
    return game_name("lookup", Lookup, people=people, relations=relations)


def _call(words: str) -> str:
    return f'search("{words}")'
