"""What a branching rule is: scores of the turns of matches."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from arena.records import Episode, Turn

Entropies = Callable[[Sequence[Turn]], list[float]]  # of the policies that replied, in nats
BranchRule = Callable[[Sequence[Episode], Entropies], list[list[float]]]  # a score of each turn; 0: no branch there


def may_branch(episode: Episode, turn: Turn) -> bool:
    """Return whether another reply of this turn would teach: a seat in training chose among several."""
    return episode.request.trained[turn.seat] and turn.action is not None and len(turn.legal) != 1
