"""Every record of play, in the order in which it flows. All are immutable.

MatchRequest -> (ReplyRequest -> Reply -> Turn)* -> Episode
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol, runtime_checkable

from games.spec import Game
from roles.role import Role


class MatchRequest(NamedTuple):
    """One match to be played. Both seeds come from (run seed, match index), so they hold on resume."""

    index: int  # type: ignore[assignment]  # unique within a run; hides tuple.index, which no record needs
    game: str
    deal_seed: int  # everything chance decides; equal deals are comparable starts
    sample_seed: int  # everything the players draw
    players: tuple[str, ...]  # player id by seat  # [seats]
    trained: tuple[bool, ...]  # which seats give trajectories  # [seats]
    rule: str = ""  # the matchmaking rule that drew it
    parent: int | None = None  # the index of the match that opened it, for a sub-role's part of that


class Refusal(NamedTuple):
    """An illegal reply of the turn in progress, and the reason the seat was given."""

    reply: str
    reason: str


class ReplyRequest(NamedTuple):
    """One seat is asked for one reply."""

    player: str
    role: Role
    game: Game  # the position to read; copy it before changing it
    observation: str
    legal: tuple[str, ...]
    refusals: tuple[Refusal, ...]  # illegal replies to this same position, oldest first
    rng: random.Random  # the match's own stream: the only randomness a sampler may use


class TokenTrace(NamedTuple):
    """What an engine sampled, kept so that nothing is tokenised twice.

    ``logprobs`` are in nats, one for each reply token, as sampled: after temperature and mask.
    """

    snapshot: str  # whose weights
    prompt_ids: tuple[int, ...]  # [P]
    reply_ids: tuple[int, ...]  # [T]
    logprobs: tuple[float, ...]  # [T]
    mask: tuple[str, ...] | None  # the legal replies whose token trie masked sampling; None: unmasked
    temperature: float = 1.0


class Reply(NamedTuple):
    """A sampler's answer. ``trace`` is None for players that are not language models."""

    text: str
    trace: TokenTrace | None = None


class Turn(NamedTuple):
    """One reply by one seat: the unit that turn-level credit is given to.

    ``reward`` is what the game paid the seat from this turn until its next one (or the end), so a
    seat's turn rewards sum to its return.
    """

    seat: int
    role: str
    player: str
    observation: str
    legal: tuple[str, ...]
    reply: str
    action: str | None  # None: the reply was illegal
    reward: float
    trace: TokenTrace | None


class EndReason(StrEnum):
    """How a match ended."""

    FINISHED = "finished"  # by the game's rules
    FORFEIT = "forfeit"  # by a seat that ran out of legal replies


class Episode(NamedTuple):
    """The record of a match."""

    request: MatchRequest
    turns: tuple[Turn, ...]
    returns: tuple[float, ...]  # in the game's units  # [seats]
    end: EndReason
    offender: int | None = None  # the seat that forfeited


class Sampler(Protocol):
    """An engine: answers a batch of requests, possibly of several players, in their order."""

    def sample(self, requests: Sequence[ReplyRequest]) -> list[Reply]:
        """Return one reply for each request. A failure is raised, never papered over."""
        ...


@runtime_checkable
class Tabular(Protocol):
    """An engine that can tell its whole policy: exact values need no sampling then."""

    def distributions(self, requests: Sequence[ReplyRequest]) -> list[tuple[float, ...]]:
        """Return for each request the probability of each of ``request.legal``, in that order."""
        ...
