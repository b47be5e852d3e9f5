"""How turns change beliefs: how far each moved its hearers' belief in the truth, and what a seat has learned.

b(t) is the probability that a seat, answering with its player's own engine, gives to the right answers of a probe in
the position before turn t. Where the right answers themselves change (another round's state is drawn), no change is
reported.
"""

from __future__ import annotations

from itertools import pairwise
from math import log2
from typing import NamedTuple

from arena.records import Belief, Episode, Turn
from roles.probes import Probe

LEAST = 2.0**-20  # smaller probabilities count as this one: a belief can be wrong by at most 20 bits


class BeliefChange(NamedTuple):
    """The change in one seat's belief in the truth that one turn of a match made."""

    turn: int  # index in the match
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
    beliefs: dict[tuple[str, int], list[Belief]] = {}
    for belief in episode.beliefs:
        if belief.truths and belief.probabilities:
            beliefs.setdefault((belief.probe, belief.seat), []).append(belief)
    return beliefs


def changes(episode: Episode) -> list[BeliefChange]:
    """Return the change that each turn made in each belief, seat by seat in the order of turns.

    Illegal replies before a turn's legal one change nothing. No change is reported between positions that are further
    apart, or between different truths.
    """
    belief_changes = []
    for (probe, hearer), beliefs in histories(episode).items():
        for earlier, later in pairwise(beliefs):
            between = episode.turns[earlier.after : later.after - 1]
            if earlier.truths == later.truths and all(turn.action is None for turn in between):
                before, after = earlier.in_truth or 0.0, later.in_truth or 0.0
                belief_changes.append(BeliefChange(later.after - 1, probe, hearer, before, after))
    return belief_changes


def spoken(turn: Turn, probe: Probe) -> bool:
    """Return whether a turn said something, as a probe's card sees it."""
    return not turn.tool and probe.is_speech(turn.form, turn.action)
