"""Requests on their way to an engine in another process, and replies on their way back.

A position stays where its match is played: it may be large, and engines of language models do not read it. A match's
random number generator travels with its request, and its state comes back with the reply: the match plays as it would
in the engine's own process.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import arena.packed  # noqa: F401  # with it traces travel packed
from arena.records import Refusal, Reply, ReplyRequest
from roles.role import Role


class RemoteRequest(NamedTuple):
    """A ``ReplyRequest`` without its position. Requests of one message that share a generator share it on arrival."""

    player: str
    role: Role
    observation: str
    legal: tuple[str, ...]
    refusals: tuple[Refusal, ...]
    rng: random.Random
    form: str = ""


class RemoteReply(NamedTuple):
    """A reply, and the state of the request's generator after it."""

    reply: Reply
    state: tuple[Any, ...]


def to_remote_requests(requests: Iterable[ReplyRequest]) -> list[RemoteRequest]:
    """Return the requests as they are sent."""
    return [RemoteRequest(r.player, r.role, r.observation, r.legal, r.refusals, r.rng, r.form) for r in requests]


def to_requests(remote_requests: Iterable[RemoteRequest]) -> list[ReplyRequest]:
    """Return the requests for an engine. Their game is None, so only engines that read no position may get them."""
    no_game: Any = None
    return [
        ReplyRequest(r.player, r.role, no_game, r.observation, r.legal, r.refusals, r.rng, r.form)
        for r in remote_requests
    ]


def to_remote_replies(requests: Sequence[RemoteRequest], replies: Sequence[Reply]) -> list[RemoteReply]:
    """Return the replies as they are sent back, one for each request."""
    return [RemoteReply(reply, request.rng.getstate()) for request, reply in zip(requests, replies, strict=True)]


def to_replies(requests: Sequence[ReplyRequest], remote_replies: Sequence[RemoteReply]) -> list[Reply]:
    """Return the replies, with each request's generator set to its state after the reply."""
    for request, remote_reply in zip(requests, remote_replies, strict=True):
        request.rng.setstate(remote_reply.state)
    return [remote_reply.reply for remote_reply in remote_replies]
