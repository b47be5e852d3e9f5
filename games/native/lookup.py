"""``lookup``: one seat answers a question over a knowledge base that it can only search.

The question is "teacher of Ann"; ``search`` returns the best matching sentences, and the seat answers with a
person that they name, or "unknown". As a submatch it is a worker: its task is the question, and its parent pays
it. As a match of its own it draws a question and pays 0.1 for an answer and 0.9 more for the right one.
"""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Callable, Mapping
from typing import Self

from games.native.knowledge import UNKNOWN, Fact, check_size, knowledge_base, search_call
from games.native.names import game_name
from games.spec import Choices, GameSpec, Utility

FORMAT, CORRECT = 0.1, 0.9


class Lookup:
    """One match of ``lookup``."""

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
        """Draw a question from the facts of a deal."""
        self._base = knowledge_base(seed, *self._size)
        self._question = random.Random(seed).choice(list(self._base.answers))
        self._is_submatch = False
        self._calls: tuple[tuple[str, str], ...] = ()  # calls with their outputs
        self._answer: str | None = None

    def start_submatch(self, task: str) -> None:
        """Take the parent's question. Raises ValueError for one that is not about a fact of the knowledge base."""
        relation, _, person = task.partition(" of ")
        if Fact(relation, person) not in self._base.answers:
            raise ValueError(f"{task!r} is not a question of {self.spec.name}")
        self._question, self._is_submatch = Fact(relation, person), True

    def outcome(self) -> str:
        """Return the answer; empty before there is one."""
        return self._answer or ""

    def to_act(self) -> int | None:
        """Return the only seat until it has answered."""
        return 0 if self._answer is None else None

    def actions(self) -> Choices:
        """Return the people that search results named, and "unknown", with their ids."""
        return Choices(self.legal_actions(), self.legal_ids())

    def legal_actions(self) -> tuple[str, ...]:
        """Return the people that search results named, and "unknown"."""
        if self._answer is not None:
            return ()
        words = set(re.findall(r"\w+", "\n".join(output for _, output in self._calls)))
        return (*(name for name in self._base.people if name in words and name != self._question.person), UNKNOWN)

    def legal_ids(self) -> tuple[int, ...]:
        """Return people's indices, and the last id for "unknown"."""
        people = self._base.people
        return tuple(people.index(name) if name in people else len(people) for name in self.legal_actions())

    def observe(self, seat: int) -> str:
        """Return all search results, newest last, and then the question."""
        return "\n".join([*(output for _, output in self._calls), f"{self._question} is"])

    def information_state(self, seat: int) -> str:
        """Return all calls with their outputs, and the question."""
        return "\n".join([*(f"{call}: {output}" for call, output in self._calls), str(self._question)])

    def apply(self, action: str) -> None:
        """Answer. Raises ValueError for a person that no search result named."""
        if action not in self.legal_actions():
            raise ValueError(f"{action!r} is not legal here; legal: {', '.join(self.legal_actions()) or 'nothing'}")
        self._answer = action

    def rewards(self) -> tuple[float, ...]:
        """Return what the answer paid; 0 in a submatch, which its parent pays."""
        if self._answer is None or self._is_submatch:
            return (0.0,)
        return (FORMAT + CORRECT * (self._answer == self._base.answers[self._question]),)

    def returns(self) -> tuple[float, ...]:
        """Return the rewards: they are paid once."""
        return self.rewards()

    def copy(self) -> Self:
        """Return an independent match in the same position."""
        return copy.copy(self)

    def tools(self) -> Mapping[str, Callable[..., str]]:
        """Return ``search(words)``."""
        return {"search": self._base.search}

    def legal_calls(self) -> tuple[str, ...]:
        """Return the searches for the question, its person and its relation that were not made yet."""
        past = {call for call, _ in self._calls}
        texts = (str(self._question), self._question.person, self._question.relation)
        return tuple(call for call in map(search_call, texts) if call not in past)

    def record_call(self, call: str, output: str) -> None:
        """Add a call with its output."""
        self._calls = (*self._calls, (call, output))

    def scripts(self) -> Mapping[str, Callable[[random.Random], str]]:
        """Return ``optimal``, which searches once and answers, and ``poor``, which names the first person it finds."""
        return {"optimal": self._optimal, "poor": self._poor}

    def _optimal(self, _rng: random.Random) -> str:
        answer = re.search(rf"\b{self._question} is (\w+)", "\n".join(output for _, output in self._calls))
        return answer[1] if answer else UNKNOWN if self._calls else search_call(self._question)

    def _poor(self, _rng: random.Random) -> str:
        return self.legal_actions()[0] if self._calls else search_call(self._question.person)


def lookup_name(people: int, relations: int) -> str:
    """Return the name of the game whose knowledge bases have this size."""
    return game_name("lookup", Lookup, people=people, relations=relations)
