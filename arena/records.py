"""Every record of play, in the order in which it flows. All are immutable.

MatchRequest -> (ReplyRequest -> Reply -> Turn | MatchRequest* -> Episode*)* -> Episode
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from enum import StrEnum
from typing import NamedTuple, Protocol, runtime_checkable

from games.spec import Game
from roles.role import Role


class Cast(NamedTuple):
    """Who sits in the matches of one game that a match may open."""

    game: str
    players: tuple[str, ...]  # player id by seat  # [seats]
    trained: tuple[bool, ...]  # which seats give trajectories  # [seats]


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
    opening: str = ""  # what the match that opened it handed over
    cast: tuple[Cast, ...] = ()  # who sits in the matches that it may open, by their game
    branch: tuple[int, ...] = ()  # seeds by turn: turn k draws from its own, so equal beginnings play equally


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
    tool: str = ""  # the tool that the reply called; the action is the call


class EndReason(StrEnum):
    """How a match ended."""

    FINISHED = "finished"  # by the game's rules
    FORFEIT = "forfeit"  # by a seat that ran out of legal replies


class Episode(NamedTuple):
    """The record of a match.

    Those that it opened are in it, in the order of their opening; as indices they have their places in
    that order until ``family`` gives them numbers of their own.
    """

    request: MatchRequest
    turns: tuple[Turn, ...]
    returns: tuple[float, ...]  # in the game's units  # [seats]
    end: EndReason
    offender: int | None = None  # the seat that forfeited
    children: tuple[Episode, ...] = ()
    outcome: str = ""  # what the match that opened it may know of it


def family(episodes: Iterable[Episode]) -> list[Episode]:
    """Return all episodes, each before those it opened, which are taken out of it.

    Matches that others opened are numbered on from the greatest index, in this order, and name the index
    of the match that opened them as their parent.
    """
    own = list(episodes)
    numbers = itertools.count(max((one.request.index for one in own), default=-1) + 1)
    return [member for one in own for member in _members(one, numbers)]


def _members(episode: Episode, numbers: Iterator[int]) -> Iterator[Episode]:
    """Yield an episode and then all below it, numbered."""
    yield episode._replace(children=()) if episode.children else episode
    for child in episode.children:
        request = child.request._replace(index=next(numbers), parent=episode.request.index)
        yield from _members(child._replace(request=request), numbers)


class Sampler(Protocol):
    """An engine: answers a batch of requests, possibly of several players, in their order."""

    def sample(self, requests: Sequence[ReplyRequest]) -> list[Reply]:
        """Return one reply for each request. A failure is raised, never papered over."""
        ...


@runtime_checkable
class Streaming(Protocol):
    """An engine that answers each request as soon as it can, while others are still on their way."""

    def submit(self, request: ReplyRequest) -> Future[Reply]:
        """Begin to answer. Whatever is random must come from ``request.rng``, drawn before this returns:
        so the replies do not depend on the order in which they come. The future may be cancelled.
        """
        ...


@runtime_checkable
class Keeper(Protocol):
    """An engine whose players' weights may change while matches go on: a match keeps those it began with."""

    def keep(self, player: str) -> str:
        """Return an id for the weights that a player has now. Requests under it, instead of the player's, are
        answered with these until ``let_go`` was called as often as ``keep`` returned it.
        """
        ...

    def let_go(self, weights: str) -> None:
        """Take back one ``keep``."""
        ...


@runtime_checkable
class Tabular(Protocol):
    """An engine that can tell its whole policy: exact values need no sampling then."""

    def distributions(self, requests: Sequence[ReplyRequest]) -> list[tuple[float, ...]]:
        """Return for each request the probability of each of ``request.legal``, in that order."""
        ...
