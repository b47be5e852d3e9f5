"""Branch where the policy is least certain (ARPO, arXiv 2507.19849): a turn's score is the entropy of its policy.

The paper looks at a rise of the entropy after a tool's answer; here turns are compared with each other.
"""

from __future__ import annotations

from collections.abc import Sequence

from arena.records import Episode
from league.population.matchmaking.branching.scores import Entropies, may_branch


def scores(episodes: Sequence[Episode], entropies: Entropies) -> list[list[float]]:
    """Return the entropy of each turn, in nats; 0 where another reply would teach nothing."""
    turns = [turn for episode in episodes for turn in episode.turns if may_branch(episode, turn)]
    found = iter(entropies(turns))
    return [[next(found) if may_branch(episode, turn) else 0.0 for turn in episode.turns] for episode in episodes]
