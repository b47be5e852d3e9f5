"""Who is a wolf in ``hidden_roles``: what clues say about it, and Bayes' rule over seats' claims. Pure.

Of ``n`` seats ``k`` are wolves, every set W of them as likely. A villager's clue names a wolf with probability a, each
of the k alike, else one of the n - k - 1 other villagers. Villagers claim what their clues say; a wolf claims a
villager, drawn. Claims c_j are then independent given W, and with h the claim of a seat (j, c_j):

    P(W | c) ∝ prod_j h_j(W),   h_j(W) = [c_j not in W] / (n - k)   for j in W,
                                h_j(W) = a / k                      for j not in W, c_j in W,
                                h_j(W) = (1 - a) / (n - k - 1)      for j not in W, c_j not in W,

over the sets W that hold every wolf and no villager that one knows. A seat knows itself. That a seat has spoken and
claimed nobody the rule does not foresee: it is taken as said by any wolf, and by one villager in a hundred.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from games.talk.conversation import Message

NOBODY = "nobody"
SUSPECT, VOTE, TAKE = "I suspect ", "vote ", "take "  # before a name

SILENT = 0.01  # of villagers


class Deal(NamedTuple):
    """Who sits where: each seat's place, then the place that each villager's clue names. The first seats are wolves."""

    seats: int
    wolves: int
    accuracy: float  # a, from 0 to 1; 0: there are no clues
    drawn: tuple[int, ...] = ()  # so far

    @property
    def complete(self) -> bool:
        """Whether all is drawn."""
        return len(self.drawn) == self.seats + (self.seats - self.wolves if self.accuracy else 0)

    @property
    def pack(self) -> tuple[int, ...]:
        """The wolves' places."""
        return self.drawn[: self.wolves]

    def outcomes(self) -> tuple[tuple[int, float], ...]:
        """Return the places that may be drawn next, with their probabilities; () if all is drawn."""
        if self.complete:
            return ()
        if len(self.drawn) < self.seats:
            free = [place for place in range(self.seats) if place not in self.drawn]
            return tuple([(place, 1.0 / len(free)) for place in free])
        right, wrong = self.accuracy / self.wolves, (1.0 - self.accuracy) / (self.seats - self.wolves - 1)
        mine = self.drawn[len(self.drawn) - self.seats + self.wolves]
        odds = [(place, right if place in self.pack else wrong) for place in range(self.seats) if place != mine]
        return tuple([(place, probability) for place, probability in odds if probability])

    def most_turns(self, days: int, speeches: int) -> int:
        """Return the turns of a match in which no vote puts anyone out, with this many turns of talk for each by
        day.
        """
        turns = 0
        for day in range(days):
            turns += (self.wolves if self.wolves > 1 else 0) + (day > 0)  # whispers, and taking
            if 2 * self.wolves >= (alive := self.seats - day):
                break
            turns += alive * (speeches + 1)
        return turns

    def clue(self, seat: int) -> int | None:
        """Return the place that a seat's clue names; None without one."""
        return self.drawn[self.seats + seat - self.wolves] if seat >= self.wolves and self.accuracy else None

    def role(self, place: int) -> str:
        """Return what sits at a place, in a word."""
        return "wolf" if place in self.pack else "villager"

    def paid(self, village_wins: bool) -> tuple[float, ...]:
        """Return by seat what a match pays that the village, or the wolves, have won: 1 or -1."""
        return tuple([1.0 if village_wins is (seat >= self.wolves) else -1.0 for seat in range(self.seats)])


def posterior(
    seats: int, wolves: int, accuracy: float, claims: Mapping[int, int | None], known: Mapping[int, bool]
) -> tuple[float, ...]:
    """Return each place's probability of being a wolf's; all 0 if the claims are impossible.

    ``claims`` says by place whom it claims, ``known`` whether a place that one knows is a wolf's; ``accuracy`` is a, or
    0 where there are no clues and claims say nothing.
    """  # [places]
    claims = claims if accuracy else {}
    suspects = [place for place in range(seats) if known.get(place, True)]
    certain = {place for place, is_wolf in known.items() if is_wolf}
    weights = {
        pack: math.prod(_likelihood(place, claim, pack, seats, accuracy) for place, claim in claims.items())
        for pack in itertools.combinations(suspects, wolves)
        if certain.issubset(pack)
    }
    total = sum(weights.values()) or 1.0
    return tuple([sum(w for pack, w in weights.items() if place in pack) / total for place in range(seats)])


def _likelihood(place: int, claim: int | None, pack: Sequence[int], seats: int, accuracy: float) -> float:
    villagers = seats - len(pack)
    if claim is None:
        return 1.0 if place in pack else SILENT
    if place in pack:
        return 0.0 if claim in pack else 1.0 / villagers
    return accuracy / len(pack) if claim in pack else (1.0 - accuracy) / (villagers - 1)


def read_claim(text: str, names: Sequence[str]) -> int | None:
    """Return the place of the one name that a text says it suspects; None for none or several."""
    said = set(re.findall(rf"\b{SUSPECT}({'|'.join(names)})\b", text))
    return names.index(said.pop()) if len(said) == 1 else None


def first_claims(messages: Iterable[Message], names: Sequence[str]) -> dict[int, int | None]:
    """Return by speaker the place of the first other whom it says it suspects; None if it says it of none."""
    claims: dict[int, int | None] = {}
    for message in messages:
        named = read_claim(message.text, names)
        if claims.get(message.speaker) is None:
            claims[message.speaker] = None if named == message.speaker else named
    return claims
