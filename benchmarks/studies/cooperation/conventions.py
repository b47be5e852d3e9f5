"""Strangers of repeated coordination: eight conventions, who play by what they see, and the Bayesian of their acts.

A plugin: ``convention:left`` always plays left, ``alternate-left`` begins with left and changes each round,
``follow-left`` begins with left and then plays what the other has just played, and ``oppose-left`` the opposite of
that; likewise with right. ``foresees`` plays the likeliest next act by Bayes' rule over all eight.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import league
from arena.records import Reply, ReplyRequest
from games.common.errors import UsageError
from roles.replies import format_reply

LEFT, RIGHT = ACTS = ("left", "right")
OTHER = {LEFT: RIGHT, RIGHT: LEFT}
CONVENTIONS = tuple(f"{prefix}{act}" for prefix in ("", "alternate-", "follow-", "oppose-") for act in ACTS)


def act_of(convention: str, own: Sequence[str], other: Sequence[str]) -> str:
    """Return a convention's act after rounds in which it and the other have played these."""
    rule, _, first = convention.rpartition("-")
    if not own or not rule:
        return first
    if rule == "alternate":
        return OTHER[own[-1]]
    return other[-1] if rule == "follow" else OTHER[other[-1]]


def rounds_seen(observation: str) -> tuple[list[str], list[str]]:
    """Return what a seat is shown that it has played, and that the other has."""
    seen = dict(re.findall(r"^(You|Other): (.*)$", observation, re.MULTILINE))
    return seen.get("You", "").split(), seen.get("Other", "").split()


def foreseen(conventions: Sequence[str], observation: str) -> Mapping[str, float]:
    """Return the probability of the other's next act by Bayes' rule, all conventions equally likely at first.

    A seat that no convention explains believes as at first.
    """
    own, other = rounds_seen(observation)

    def explains(name: str) -> bool:
        return all(act_of(name, other[:k], own[:k]) == act for k, act in enumerate(other))

    left = [name for name in conventions if explains(name)] or list(conventions)
    acts = [act_of(name, other, own) for name in left]
    return {act: acts.count(act) / len(acts) for act in ACTS}


class Convention:
    """Plays one convention."""

    def __init__(self, name: str) -> None:
        if name not in CONVENTIONS:
            raise UsageError(f"There is no convention {name!r}; the conventions are {', '.join(CONVENTIONS)}.")
        self._name = name

    def sample(self, requests: Sequence[ReplyRequest]) -> list[Reply]:
        """Return one reply for each request; what it would write for a later prompt is the first choice."""
        return [Reply(format_reply(request.role, self._act(request))) for request in requests]

    def _act(self, request: ReplyRequest) -> str:
        if request.probe:
            return request.legal[0]
        return act_of(self._name, *rounds_seen(request.game.observe(request.role.seat)))  # whatever its card shows


class Foresees:
    """Plays the act that is likeliest by Bayes' rule, and draws between equally likely ones."""

    def sample(self, requests: Sequence[ReplyRequest]) -> list[Reply]:
        """Return one reply for each request."""
        return [Reply(format_reply(request.role, self._act(request))) for request in requests]

    def _act(self, request: ReplyRequest) -> str:
        belief = foreseen(CONVENTIONS, request.game.observe(request.role.seat))
        return request.rng.choice([act for act in ACTS if belief[act] == max(belief.values())])


league.register_scripted("convention", Convention)
league.register_scripted("foresees", Foresees)
