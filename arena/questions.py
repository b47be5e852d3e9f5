"""Requests on their way to an engine in another process, and the answers on their way back.

A position stays where the match is played: it may be large, and engines of language models do not read it. A match's
stream of random numbers goes with its request and comes back as far as the engine has drawn from it, so a match plays
as it would beside its engine.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from arena.records import Refusal, Reply, ReplyRequest
from roles.role import Role


class Question(NamedTuple):
    """A ``ReplyRequest`` without its position. Questions that share a generator still do where they arrive."""

    player: str
    role: Role
    observation: str
    legal: tuple[str, ...]
    refusals: tuple[Refusal, ...]
    rng: random.Random


class Answer(NamedTuple):
    """A reply, and how the request's generator stands after it."""

    reply: Reply
    state: tuple[Any, ...]


def to_questions(requests: Iterable[ReplyRequest]) -> list[Question]:
    """Return what is to be sent."""
    return [Question(r.player, r.role, r.observation, r.legal, r.refusals, r.rng) for r in requests]


def to_requests(questions: Iterable[Question]) -> list[ReplyRequest]:
    """Return what an engine is to be asked. Their game is None: only engines that read no position may see them."""
    nowhere: Any = None
    return [ReplyRequest(q.player, q.role, nowhere, q.observation, q.legal, q.refusals, q.rng) for q in questions]


def to_answers(questions: Sequence[Question], replies: Sequence[Reply]) -> list[Answer]:
    """Return what is to be sent back. The engine must have answered one for one."""
    return [Answer(reply, one.rng.getstate()) for one, reply in zip(questions, replies, strict=True)]


def received(requests: Sequence[ReplyRequest], answers: Sequence[Answer]) -> list[Reply]:
    """Return the replies, each request's generator moved on."""
    for request, answer in zip(requests, answers, strict=True):
        request.rng.setstate(answer.state)
    return [answer.reply for answer in answers]
