"""Self-play: the live policies meet each other, and every seat is trained.

It is the fastest source of improvement, and on its own it cycles in games with hidden information
or intransitive strategies; the rules for past opponents are there to damp that.
"""

from __future__ import annotations


def self_play(live: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[bool, ...]]:
    """Return the players by seat [seats] and which seats are trained [seats]."""
    return live, (True,) * len(live)
