"""``lookup_alone``: the questions of ``lookup_chain`` for one player without workers, who searches himself.

He may search as often as a planner may ask, and reads all that every search finds, where a planner is only told the
answers: what a team is worth is measured against him.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from games.knowledge import Fact
from games.lookup_chain import LookupChain
from games.names import game_name


class LookupAlone(LookupChain):
    """One match."""

    def __init__(self, hops: int = 2, people: int = 12, relations: int = 6) -> None:
        super().__init__(hops, people, relations)
        name = game_name("lookup_alone", LookupAlone, hops=hops, people=people, relations=relations)
        self.spec = replace(self.spec, name=name, num_actions=people, max_turns=1, opens=())

    def reset(self, seed: int) -> None:
        """Draw the question that a planner would have, with the same notes."""
        super().reset(seed)
        self._told: tuple[tuple[str, str], ...] = ()  # calls and what they gave

    def legal_actions(self) -> tuple[str, ...]:
        """Return the people of the question, the notes and what was found as answers."""
        return () if self.to_act() is None else tuple(f"answer {person}" for person in self._heard_of())

    def observe(self, seat: int) -> str:
        """Return the notes, all that was found, newest last, and then the question."""
        *notes, question = super().observe(seat).splitlines()
        return "\n".join([*notes, *(output for _, output in self._told), question])

    def tools(self) -> Mapping[str, Callable[..., str]]:
        """Return ``search(words)``."""
        return {"search": self._base.search}

    def calls(self) -> tuple[str, ...]:
        """Return the searches for a step of the question about people heard of, but none twice."""
        made = {call for call, _ in self._told}
        facts = (Fact(relation, person) for person in self._heard_of() for relation in dict.fromkeys(self._chain))
        return tuple(call for call in map(_call, facts) if call not in made)

    def told(self, call: str, output: str) -> None:
        """Remember what a call gave."""
        self._told = (*self._told, (call, output))

    def _optimal(self, _rng: random.Random) -> str:
        seen, person = self.observe(0), self._start
        for relation in self._chain:
            found = re.search(rf"\b{relation} of {person} is (\w+)", seen)
            if not found:
                call = _call(Fact(relation, person))
                return call if call in self.calls() else f"answer {person}"
            person = found[1]
        return f"answer {person}"

    def _poor(self, _rng: random.Random) -> str:
        return f"answer {self._heard_of()[-1]}" if self._told else self.calls()[0]

    def _heard_of(self) -> list[str]:
        """Return the people that a planner would have heard of, and then those in what was found."""
        found = re.findall(r"\w+", "\n".join(output for _, output in self._told))
        return list(dict.fromkeys((*super()._heard_of(), *(word for word in found if word in self._base.people))))


def _call(fact: Fact) -> str:
    return f'search("{fact}")'
