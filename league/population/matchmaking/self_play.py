"""Self-play: the live policies meet each other, and every seat of a policy that is learning is trained.

It improves policies fastest, but by itself it cycles in games with hidden information or intransitive
strategies; the rules for past opponents damp that.
"""

from __future__ import annotations

from collections.abc import Collection


def self_play(policies: tuple[str, ...], learning: Collection[str]) -> tuple[tuple[str, ...], tuple[bool, ...]]:
    """Return the players by seat [seats] and which seats are trained [seats]."""
    return policies, tuple(policy in learning for policy in policies)


def rotate_seats(policies: tuple[str, ...], iteration: int, swap_every: int | None) -> tuple[str, ...]:
    """Return the policies by seat in an iteration (from 1 on), rotated by a seat every ``swap_every`` iterations.

    CORY (arXiv 2410.06101) swaps its pioneer and observer so. A policy keeps its weights and optimizer.
    """
    shift = (iteration - 1) // swap_every % len(policies) if swap_every else 0
    return policies[shift:] + policies[:shift]
