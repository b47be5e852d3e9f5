"""``lookup_chain``: a planner answers "teacher of boss of Ann" by asking workers for one step after another.

A question is a chain of relations over a generated knowledge base (``games.native.knowledge``). Some of its facts
are in the planner's notes; for the others it opens submatches of ``lookup``, up to six, and learns only their
answers. Rewards are those of M-GRPO (arXiv 2511.13288): the planner gets R_M = 0.1 format + 0.9 correct, a
worker R_S = 0.1 format + 0.4 correct_main + 0.5 expert, where expert says that its own answer was right.

Difficulty: ``hops`` is the longest chain (its length is drawn from 1 up), ``people`` and ``relations`` are the
knowledge base's size, ``side`` is the number of questions that may be asked side by side.
"""

from __future__ import annotations

import copy
import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Self

from games.common.errors import UsageError
from games.native.knowledge import UNKNOWN, Fact, check_size, knowledge_base
from games.native.lookup import lookup_name
from games.native.names import game_name
from games.spec import Choices, GameSpec, Submatch, Utility

MAX_SUBMATCHES = 6
MAX_HOPS = 6
NOTE_PROBABILITY = 0.2  # that a fact of the question is in the notes
FORMAT, CORRECT = 0.1, 0.9
SUB_FORMAT, SUB_CORRECT_MAIN, SUB_EXPERT = 0.1, 0.4, 0.5


class LookupChain:
    """One match of ``lookup_chain``, in which the planner has the only seat."""

    def __init__(self, hops: int = 2, people: int = 12, relations: int = 6, side: int = 1) -> None:
        check_size(people, relations)
        if not 1 <= hops <= MAX_HOPS or not 1 <= side <= 2:
            raise UsageError(f"hops = {hops}, side = {side}: a chain has 1 to {MAX_HOPS} hops, side is 1 or 2.")
        self._hops, self._size, self._side = hops, (people, relations), side
        asks = people * relations
        self.spec = GameSpec(
            name=game_name("lookup_chain", LookupChain, hops=hops, people=people, relations=relations, side=side),
            seats=1,
            num_actions=people + asks + (asks * asks if side > 1 else 0),
            max_turns=MAX_SUBMATCHES + 1,
            min_return=0.0,
            max_return=1.0,
            utility=Utility.IDENTICAL,
            perfect_information=False,
            has_chance=True,
            optimum=1.0,
            submatch_games=(lookup_name(people, relations),),
            alone=game_name("lookup_alone", LookupChain, hops=hops, people=people, relations=relations),
        )
        self.reset(0)

    def reset(self, seed: int) -> None:
        """Draw a question, its answer, and which of its facts are in the notes."""
        rng = random.Random(seed)
        self._base = knowledge_base(seed, *self._size)
        self._start = person = rng.choice(self._base.people)
        self._chain = tuple(rng.choices(self._base.relations, k=rng.randint(1, self._hops)))  # innermost first
        self._facts: tuple[tuple[Fact, str], ...] = ()  # notes, and then workers' answers
        for relation in self._chain:
            fact = Fact(relation, person)
            person = self._base.answers[fact]
            if rng.random() < NOTE_PROBABILITY:
                self._facts = (*self._facts, (fact, person))
        self._solution = person
        self._asked: tuple[Fact, ...] = ()
        self._opened: tuple[Fact, ...] = ()  # by the last action
        self._workers: tuple[tuple[bool, bool], ...] = ()  # of each: whether it answered, and was right
        self._answer: str | None = None

    def to_act(self) -> int | None:
        """Return the only seat until it has answered."""
        return 0 if self._answer is None else None

    def actions(self) -> Choices:
        """Return the legal actions with their ids."""
        return Choices(self.legal_actions(), self.legal_ids())

    def legal_actions(self) -> tuple[str, ...]:
        """Return the questions about known people, as far as any may still be asked, and those people as answers."""
        if self._answer is not None:
            return ()
        people = self._known_people()
        left = MAX_SUBMATCHES - len(self._asked)
        facts = [Fact(relation, person) for person in people for relation in dict.fromkeys(self._chain)]
        asks = [f"ask {fact}" for fact in facts] if left else []
        if left > 1 and self._side > 1:
            asks += [f"ask {first} and {second}" for first, second in itertools.combinations(facts, 2)]
        return (*asks, *(f"answer {person}" for person in people))

    def legal_ids(self) -> tuple[int, ...]:
        """Return the ids of the legal actions: answers first, then single questions, then pairs."""
        return tuple(map(self._id, self.legal_actions()))

    def observe(self, seat: int) -> str:
        """Return the known facts, how many questions may still be asked where that limits it, and then the task."""
        left = MAX_SUBMATCHES - len(self._asked)
        last = {0: ["No question may be asked any more."], 1: ["One question may still be asked."]}
        few = last.get(left, []) if left < max(self._side, 1) else []  # then fewer actions are legal
        return "\n".join([*(f"{fact} is {answer}" for fact, answer in self._facts), *few, self._question()])

    def information_state(self, seat: int) -> str:
        """Return the observation: the planner knows no more."""
        return self.observe(seat)

    def apply(self, action: str) -> None:
        """Ask or answer. Raises ValueError for an illegal action."""
        if action not in self.legal_actions():
            raise ValueError(f"{action!r} is not legal here; legal: {', '.join(self.legal_actions()) or 'nothing'}")
        verb, _, rest = action.partition(" ")
        self._opened = ()
        if verb == "answer":
            self._answer = rest
            return
        self._opened = tuple(_fact(text) for text in rest.split(" and "))
        self._asked += self._opened

    def rewards(self) -> tuple[float, ...]:
        """Return R_M with the answer, 0 before."""
        return (0.0,) if self._answer is None else (FORMAT + CORRECT * self._correct(),)

    def returns(self) -> tuple[float, ...]:
        """Return the rewards: they are paid once."""
        return self.rewards()

    def copy(self) -> Self:
        """Return an independent match in the same position."""
        return copy.copy(self)

    def submatches(self) -> tuple[Submatch, ...]:
        """Return a submatch of ``lookup`` for each question of the last action."""
        return tuple(Submatch(self.spec.submatch_games[0], str(fact)) for fact in self._opened)

    def record_outcomes(self, outcomes: Sequence[str]) -> None:
        """Add the workers' answers to the known facts, "unknown" for a worker without one."""
        for fact, outcome in zip(self._opened, outcomes, strict=True):
            self._facts = (*self._facts, (fact, outcome or UNKNOWN))
            self._workers = (*self._workers, (bool(outcome), outcome == self._base.answers[fact]))

    def submatch_returns(self) -> tuple[tuple[float, ...], ...]:
        """Return R_S of each worker; 0 without an answer."""
        main = SUB_CORRECT_MAIN * self._correct()
        return tuple(
            ((SUB_FORMAT + main + SUB_EXPERT * right) if answered else 0.0,) for answered, right in self._workers
        )

    def scripts(self) -> Mapping[str, Callable[[random.Random], str]]:
        """Return ``optimal``, which asks step after step, and ``poor``, which asks for the last step only."""
        return {"optimal": self._optimal, "poor": self._poor}

    def _optimal(self, _rng: random.Random) -> str:
        facts, person = dict(self._facts), self._start
        for relation in self._chain:
            answer = facts.get(Fact(relation, person), UNKNOWN)
            if answer == UNKNOWN:
                may_ask = len(self._asked) < MAX_SUBMATCHES
                return f"ask {Fact(relation, person)}" if may_ask else f"answer {person}"
            person = answer
        return f"answer {person}"

    def _poor(self, _rng: random.Random) -> str:
        if not self._asked:
            return f"ask {Fact(self._chain[-1], self._start)}"
        return f"answer {self._known_people()[-1]}"

    def _correct(self) -> bool:
        return self._answer == self._solution

    def _question(self) -> str:
        return f"{' of '.join(reversed(self._chain))} of {self._start}"

    def _known_people(self) -> list[str]:
        """Return the person of the question, and then those of the known facts, in order."""
        answers = (answer for _, answer in self._facts if answer != UNKNOWN)
        return list(dict.fromkeys((self._start, *answers)))

    def _id(self, action: str) -> int:
        people, relations = self._base.people, self._base.relations
        verb, _, rest = action.partition(" ")
        if verb == "answer":
            return people.index(rest)
        asks = len(people) * len(relations)
        first, *second = (
            relations.index(fact.relation) * len(people) + people.index(fact.person)
            for fact in map(_fact, rest.split(" and "))
        )
        return len(people) + (asks * (first + 1) + second[0] if second else first)


def _fact(text: str) -> Fact:
    relation, _, person = text.partition(" of ")
    return Fact(relation, person)
