"""Self-play: the live policies meet each other, and every seat of a policy that is learning is trained.

It is the fastest source of improvement, and on its own it cycles in games with hidden information
or intransitive strategies; the rules for past opponents are there to damp that.
"""

from __future__ import annotations

from collections.abc import Collection


def self_play(live: tuple[str, ...], learning: Collection[str]) -> tuple[tuple[str, ...], tuple[bool, ...]]:
    """Return the players by seat [seats] and which seats are trained [seats]."""
    return live, tuple(policy in learning for policy in live)


def moved_on(live: tuple[str, ...], iteration: int, swap_every: int | None) -> tuple[str, ...]:
    """Return the policies by seat in an iteration (from 1 on): all move on by a seat every ``swap_every``.  # [seats]

    CORY (arXiv 2410.06101) so swaps pioneer and observer. A policy takes its weights and optimiser along.
    """
    seat = (iteration - 1) // swap_every % len(live) if swap_every else 0
    return live[seat:] + live[:seat]
