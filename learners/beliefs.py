"""What turns did to beliefs: by how much each changed what its hearers think true, and what a seat has learned.

b(t) is the probability that a seat gives to the right answers of a probe in the position before turn t, by its player's
own engine. Where what is right changes (another round's state is drawn), nothing is said of the change.
"""

from __future__ import annotations

from itertools import pairwise
from math import log2
from typing import NamedTuple

from arena.records import Belief, Episode, Turn
from roles.probes import Probe

LEAST = 2.0**-20  # probabilities below count as this one: 20 bits are the most that a belief can be wrong


class BeliefChange(NamedTuple):
    """The change in one seat's belief in the truth that one turn of a match made."""

    turn: int  # its place in the match, from 0
    probe: str
    hearer: int  # seat
    before: float  # probability of the truth
    after: float

    @property
    def bits(self) -> float:
        """What the hearer has learned, in bits: log2 of the ratio of its probabilities of the truth."""
        return bits(self.after) - bits(self.before)


def bits(probability: float) -> float:
    """Return log2 of a probability of the truth, of at least ``LEAST``."""
    return log2(max(probability, LEAST))


def histories(episode: Episode) -> dict[tuple[str, int], list[Belief]]:
    """Return the beliefs whose truth is known by (probe, seat), in the order of positions."""
    found: dict[tuple[str, int], list[Belief]] = {}
    for belief in episode.beliefs:
        if belief.truths and belief.probabilities:
            found.setdefault((belief.probe, belief.seat), []).append(belief)
    return found


def changes(episode: Episode) -> list[BeliefChange]:
    """Return the change that each turn made in each belief, seat by seat in the order of turns.

    Illegal replies before a turn's legal one changed nothing. Between positions that are further apart, and between
    different truths, there is no change to tell.
    """
    found = []
    for (probe, hearer), beliefs in histories(episode).items():
        for earlier, later in pairwise(beliefs):
            between = episode.turns[earlier.after : later.after - 1]
            if earlier.truths == later.truths and all(turn.action is None for turn in between):
                before, after = earlier.in_truth or 0.0, later.in_truth or 0.0
                found.append(BeliefChange(later.after - 1, probe, hearer, before, after))
    return found


def spoken(turn: Turn, probe: Probe) -> bool:
    """Return whether a turn said something, as a probe's card sees it."""
    return not turn.tool and probe.is_speech(turn.form, turn.action)
