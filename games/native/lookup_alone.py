"""``lookup_alone``: the questions of ``lookup_chain`` for one player without workers, who does the searching.

The player may search as often as a planner may ask, and reads all results, where a planner only gets answers. The
value of a team is measured against this player.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from games.native.knowledge import Fact, search_call
from games.native.lookup_chain import LookupChain
from games.native.names import game_name


class LookupAlone(LookupChain):
    """One match of ``lookup_alone``."""

    def __init__(self, hops: int = 2, people: int = 12, relations: int = 6) -> None:
        super().__init__(hops, people, relations)
        name = game_name("lookup_alone", LookupAlone, hops=hops, people=people, relations=relations)
        self.spec = replace(self.spec, name=name, num_actions=people, max_turns=1, submatch_games=(), alone="")

    def reset(self, seed: int) -> None:
        """Draw the same question and notes as ``lookup_chain``."""
        super().reset(seed)
        self._calls: tuple[tuple[str, str], ...] = ()  # calls with their outputs

    def legal_actions(self) -> tuple[str, ...]:
        """Return the people of the question, the notes and the search results as answers."""
        return () if self.to_act() is None else tuple(f"answer {person}" for person in self._known_people())

    def observe(self, seat: int) -> str:
        """Return the notes, all search results, newest last, and then the question."""
        *notes, question = super().observe(seat).splitlines()
        return "\n".join([*notes, *(output for _, output in self._calls), question])

    def tools(self) -> Mapping[str, Callable[..., str]]:
        """Return ``search(words)``."""
        return {"search": self._base.search}

    def legal_calls(self) -> tuple[str, ...]:
        """Return the searches for a step of the question about known people that were not made yet."""
        past = {call for call, _ in self._calls}
        facts = (Fact(relation, person) for person in self._known_people() for relation in dict.fromkeys(self._chain))
        return tuple(call for call in map(search_call, facts) if call not in past)

    def record_call(self, call: str, output: str) -> None:
        """Add a call with its output."""
        self._calls = (*self._calls, (call, output))

    def _optimal(self, _rng: random.Random) -> str:
        observation, person = self.observe(0), self._start
        for relation in self._chain:
            answer = re.search(rf"\b{relation} of {person} is (\w+)", observation)
            if not answer:
                call = search_call(Fact(relation, person))
                return call if call in self.legal_calls() else f"answer {person}"
            person = answer[1]
        return f"answer {person}"

    def _poor(self, _rng: random.Random) -> str:
        return f"answer {self._known_people()[-1]}" if self._calls else self.legal_calls()[0]

    def _known_people(self) -> list[str]:
        """Return the people that the planner would know, and then those in the search results."""
        words = re.findall(r"\w+", "\n".join(output for _, output in self._calls))
        return list(dict.fromkeys((*super()._known_people(), *(word for word in words if word in self._base.people))))
