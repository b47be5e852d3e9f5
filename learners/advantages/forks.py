"""Credit of matches that were forked at a branch point (ARPO, arXiv 2507.19849; ``[branching]``).

A match and the n forks of its turn c are one family. Its turns before c led to all of them: each gets the mean of their
returns in place of its own, which is ARPO's soft advantage. From c on, the n + 1 matches differ, and each counts as
1 / (n + 1), so that no position weighs more because it was forked:

    A_k <- A_k + mean over the family of R − R  (k < c),   A_k <- A_k / (n + 1)  (k >= c, and in forks)

This is right for rules whose advantage moves with the return one to one, ``FORKABLE``.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from learners.advantages.rule import Advantages
from learners.trajectories import Trajectory

FORKABLE = ("reinforce", "rae", "mars")


def share_among_forks(trajectories: Sequence[Trajectory], advantages: Advantages) -> Advantages:
    """Return the advantages, shared within families as above; the same object where there is no fork.

    A fork's origin is among ``trajectories``.
    """
    families: dict[tuple[int, int], list[int]] = {}  # by match of the origin and seat
    for index, trajectory in enumerate(trajectories):
        if trajectory.fork:
            families.setdefault((trajectory.fork[0], trajectory.seat), []).append(index)
    if not families:
        return advantages
    shared = list(advantages)
    for index, trajectory in enumerate(trajectories):
        forks = [] if trajectory.fork else families.get((trajectory.match, trajectory.seat), [])
        if not forks:
            continue
        fork_turn, share = trajectories[forks[0]].fork[1], 1.0 / (len(forks) + 1)
        mean = fmean([trajectories[i].match_return for i in (index, *forks)])
        shared[index] = [
            a + mean - trajectory.match_return if position < fork_turn else a * share
            for a, position in zip(advantages[index], trajectory.order, strict=True)
        ]
        for i in forks:
            shared[i] = [a * share for a in advantages[i]]
    return shared
