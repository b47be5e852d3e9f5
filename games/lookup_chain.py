"""``lookup_chain``: a planner answers "teacher of boss of Ann" by asking workers for one step after another.

A question is a chain of relations over a generated knowledge base (``games.knowledge``). Some of its facts stand in
the planner's notes; for the others it opens matches of ``lookup``, up to six, and sees of them only what they
answer. Rewards are those of M-GRPO (arXiv 2511.13288): the planner gets R_M = 0.1 format + 0.9 correct, a
worker R_S = 0.1 format + 0.4 correct_main + 0.5 expert, where expert says that its own answer was right.

Difficulty: ``hops`` is the longest chain (its length is drawn from 1 up), ``people`` and ``relations`` are the
knowledge base's size, ``side`` is how many questions may be asked side by side.
"""

from __future__ import annotations

import copy
import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Self

from games.errors import UsageError
from games.knowledge import UNKNOWN, Fact, check_size, knowledge_base
from games.lookup import lookup_name
from games.names import game_name
from games.spec import GameSpec, Opening, Utility

MOST = 6  # matches that one may open
LONGEST = 6
NOTED = 0.2  # probability that a fact stands in the notes
FORMAT, CORRECT = 0.1, 0.9
SUB_FORMAT, SUB_CORRECT_MAIN, SUB_EXPERT = 0.1, 0.4, 0.5


class LookupChain:
    """One match of the planner."""

    def __init__(self, hops: int = 2, people: int = 12, relations: int = 6, side: int = 1) -> None:
        check_size(people, relations)
        if not 1 <= hops <= LONGEST or not 1 <= side <= 2:
            raise UsageError(f"hops = {hops}, side = {side}: a chain has 1 to {LONGEST} hops, side is 1 or 2.")
        self._hops, self._size, self._side = hops, (people, relations), side
        asks = people * relations
        self.spec = GameSpec(
            name=game_name("lookup_chain", LookupChain, hops=hops, people=people, relations=relations, side=side),
            seats=1,
            num_actions=people + asks + (asks * asks if side > 1 else 0),
            max_turns=MOST + 1,
            min_return=0.0,
            max_return=1.0,
            utility=Utility.IDENTICAL,
            perfect_information=False,
            has_chance=True,
            optimum=1.0,
            opens=(lookup_name(people, relations),),
        )
        self.reset(0)

    def reset(self, seed: int) -> None:
        """Draw a question, its answer, and which of its facts stand in the notes."""
        rng = random.Random(seed)
        self._base = knowledge_base(seed, *self._size)
        self._start = person = rng.choice(self._base.people)
        self._chain = tuple(rng.choices(self._base.relations, k=rng.randint(1, self._hops)))  # innermost first
        self._known: tuple[tuple[Fact, str], ...] = ()  # notes, and then what workers answered
        for relation in self._chain:
            fact = Fact(relation, person)
            person = self._base.answers[fact]
            if rng.random() < NOTED:
                self._known = (*self._known, (fact, person))
        self._right = person
        self._asked: tuple[Fact, ...] = ()
        self._opening: tuple[Fact, ...] = ()
        self._experts: tuple[tuple[bool, bool], ...] = ()  # for each worker: it answered, and was right
        self._answer: str | None = None

    def to_act(self) -> int | None:
        """Return the only seat until it has answered."""
        return 0 if self._answer is None else None

    def legal_actions(self) -> tuple[str, ...]:
        """Return the questions about people heard of, as far as any may still be asked, and those people as answers."""
        if self._answer is not None:
            return ()
        people = self._heard_of()
        left = MOST - len(self._asked)
        facts = [Fact(relation, person) for person in people for relation in dict.fromkeys(self._chain)]
        asks = [f"ask {fact}" for fact in facts] if left else []
        if left > 1 and self._side > 1:
            asks += [f"ask {one} and {other}" for one, other in itertools.combinations(facts, 2)]
        return (*asks, *(f"answer {person}" for person in people))

    def legal_ids(self) -> tuple[int, ...]:
        """Return answers' ids first, then single questions', then pairs'."""
        return tuple(map(self._id, self.legal_actions()))

    def observe(self, seat: int) -> str:
        """Return what is known, and then the question."""
        return "\n".join([*(f"{fact} is {answer}" for fact, answer in self._known), self._question()])

    def information_state(self, seat: int) -> str:
        """Return the same: the planner knows no more."""
        return self.observe(seat)

    def apply(self, action: str) -> None:
        """Ask or answer. Raises ValueError for what is not legal."""
        if action not in self.legal_actions():
            raise ValueError(f"{action!r} is not legal here; legal: {', '.join(self.legal_actions()) or 'nothing'}")
        verb, _, rest = action.partition(" ")
        self._opening = ()
        if verb == "answer":
            self._answer = rest
            return
        self._opening = tuple(_fact(text) for text in rest.split(" and "))
        self._asked += self._opening

    def rewards(self) -> tuple[float, ...]:
        """Return R_M with the answer, nothing before."""
        return (0.0,) if self._answer is None else (FORMAT + CORRECT * self._correct(),)

    def returns(self) -> tuple[float, ...]:
        """Return the same: it is paid once."""
        return self.rewards()

    def copy(self) -> Self:
        """Return an independent match in the same position."""
        return copy.copy(self)

    def openings(self) -> tuple[Opening, ...]:
        """Return a match of ``lookup`` for each question just asked."""
        return tuple(Opening(self.spec.opens[0], str(fact)) for fact in self._opening)

    def close(self, outcomes: Sequence[str]) -> None:
        """Take the workers' answers; one that has none is unknown."""
        for fact, outcome in zip(self._opening, outcomes, strict=True):
            self._known = (*self._known, (fact, outcome or UNKNOWN))
            self._experts = (*self._experts, (bool(outcome), outcome == self._base.answers[fact]))

    def opened_returns(self) -> tuple[tuple[float, ...], ...]:
        """Return R_S of each worker; 0 for one without an answer."""
        main = SUB_CORRECT_MAIN * self._correct()
        return tuple(
            ((SUB_FORMAT + main + SUB_EXPERT * right) if answered else 0.0,) for answered, right in self._experts
        )

    def scripts(self) -> Mapping[str, Callable[[random.Random], str]]:
        """Return ``optimal``, which goes from step to step, and ``poor``, which asks for the last step only."""
        return {"optimal": self._optimal, "poor": self._poor}

    def _optimal(self, _rng: random.Random) -> str:
        known, person = dict(self._known), self._start
        for relation in self._chain:
            answer = known.get(Fact(relation, person), UNKNOWN)
            if answer == UNKNOWN:
                able = len(self._asked) < MOST
                return f"ask {Fact(relation, person)}" if able else f"answer {person}"
            person = answer
        return f"answer {person}"

    def _poor(self, _rng: random.Random) -> str:
        if not self._asked:
            return f"ask {Fact(self._chain[-1], self._start)}"
        return f"answer {self._heard_of()[-1]}"

    def _correct(self) -> bool:
        return self._answer == self._right

    def _question(self) -> str:
        return f"{' of '.join(reversed(self._chain))} of {self._start}"

    def _heard_of(self) -> list[str]:
        """Return the person of the question, and then those in what is known, in order."""
        named = (answer for _, answer in self._known if answer != UNKNOWN)
        return list(dict.fromkeys((self._start, *named)))

    def _id(self, action: str) -> int:
        people, relations = self._base.people, self._base.relations
        verb, _, rest = action.partition(" ")
        if verb == "answer":
            return people.index(rest)
        asks = len(people) * len(relations)
        one, *other = (
            relations.index(fact.relation) * len(people) + people.index(fact.person)
            for fact in map(_fact, rest.split(" and "))
        )
        return len(people) + (asks * (one + 1) + other[0] if other else one)


def _fact(text: str) -> Fact:
    relation, _, person = text.partition(" of ")
    return Fact(relation, person)
