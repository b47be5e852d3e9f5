"""One iteration's learning: which policies train, from which turns, credited by which rule."""

from __future__ import annotations

from collections.abc import Sequence

from league.config import RunConfig


def learning_now(config: RunConfig, policies: Sequence[str], iteration: int) -> list[str]:
    """Return the policies that train in an iteration (counted from 1).

    All that are not frozen; with ``alternate`` one at a time, in the order of ``policies``.
    """
    trained = [name for name in policies if not config.policy(name).frozen]
    if config.alternate and trained:
        return [trained[(iteration - 1) // config.alternate % len(trained)]]
    return trained
