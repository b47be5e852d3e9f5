"""Every record of play, in the order in which it flows. All are immutable.

Start -> MatchRequest -> (ReplyRequest -> Reply -> Turn | MatchRequest* -> Episode*)* -> Episode
"""

from __future__ import annotations

import hashlib
import itertools
import json
import random
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from games.spec import Attempt, Game
from roles.truncation import NO_TRUNCATION

if TYPE_CHECKING:  # its settings need pydantic, and play on a bare machine does not
    from roles.role import Role


class Cast(NamedTuple):
    """The players of one game's submatches."""

    game: str
    players: tuple[str, ...]  # player id by seat  # [seats]
    trained: tuple[bool, ...]  # which seats give trajectories  # [seats]


class Start(NamedTuple):
    """Where matches begin: a deal or a task, and actions after it. It never changes: its name derives from its content.

    A game that takes tasks (``games.abilities.TakesTasks``) begins with ``task`` in place of what it would deal.
    """

    game: str
    seed: int  # of all chance events
    task: str = ""
    prefix: tuple[str, ...] = ()  # actions of all seats that are taken as played
    attempts: tuple[Attempt, ...] = ()  # at the submatches that they opened, in their order

    @property
    def name(self) -> str:
        """The first 128 bits of the SHA-256 of the content, in hexadecimal; attempts count where there are any."""
        content = json.dumps(self if self.attempts else self[:-1], ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:32]


class MatchRequest(NamedTuple):
    """A match to be played. Both seeds derive from (run seed, match index), so they are the same after a resume."""

    index: int  # type: ignore[assignment]  # unique within a run; shadows tuple.index
    game: str
    deal_seed: int  # of all chance events; matches with equal deal seeds start equally
    sample_seed: int  # of all that players draw
    players: tuple[str, ...]  # player id by seat  # [seats]
    trained: tuple[bool, ...]  # which seats give trajectories  # [seats]
    rule: str = ""  # the matchmaking rule that drew the match
    parent: int | None = None  # the index of the match that opened this submatch
    task: str = ""  # the text that a submatch, or a match from a stored task, is opened with
    cast: tuple[Cast, ...] = ()  # the players of the submatches that it may open
    branch: tuple[int, ...] = ()  # a seed for each turn: branches with equal first seeds play their first turns equally
    prefix: tuple[str, ...] = ()  # actions of all seats that are taken as played: the match continues after them
    start: str = ""  # the name of the stored start that it begins from: its deal, task and prefix; "": of none
    fork: tuple[int, ...] = ()  # of a match that continues from the middle of another: its index, and the turns before
    given: tuple[tuple[int, str, str], ...] = ()  # (seat, slot, text): what fills slots of cards from outside the match
    texts: tuple[tuple[int, str], ...] = ()  # (actions before it, text): what was written for slots within the prefix
    attempts: tuple[Attempt, ...] = ()  # at the submatches of the match that it continues from, in their order
    explore: tuple[float, ...] = ()  # by seat: how likely a reply is drawn from all legal ones alike; (): 0  # [seats]

    def from_start(self, start: Start) -> MatchRequest:
        """Return this match from a stored start of its game."""
        return self._replace(
            deal_seed=start.seed, task=start.task, prefix=start.prefix, start=start.name, attempts=start.attempts
        )


class Refusal(NamedTuple):
    """An illegal reply of the turn in progress, and the reason that the seat was given."""

    reply: str
    reason: str


class ReplyRequest(NamedTuple):
    """A request for one reply of one seat."""

    player: str
    role: Role
    game: Game  # the position: copy it before changing it
    observation: str
    legal: tuple[str, ...]
    refusals: tuple[Refusal, ...]  # illegal replies to this position, oldest first
    rng: random.Random  # the match's generator: the only randomness that a sampler may use
    form: str = ""  # what an answer looks like where free text is asked for; then ``legal`` is empty
    probe: str = ""  # the name of a question that is not a move; then ``legal`` are its answers
    chat: tuple[tuple[str, str], ...] = ()  # (who speaks, text): asked in place of the role's prompt; (): that


class TokenTrace(NamedTuple):
    """The tokens that an engine sampled, kept so that nothing is tokenised twice.

    ``logprobs`` are in nats, one for each reply token, as sampled: after temperature and mask.
    """

    snapshot: str  # the snapshot or player whose weights sampled it
    prompt_ids: tuple[int, ...]  # [P]
    reply_ids: tuple[int, ...]  # [T]
    logprobs: tuple[float, ...]  # [T]
    mask: tuple[str, ...] | None  # the legal replies whose token trie masked sampling; None: unmasked
    temperature: float = 1.0
    truncation: tuple[float, ...] = tuple(NO_TRUNCATION)  # the numbers of a free reply's ``Truncation``
    version: int | None = None  # updates that a policy in training had had; None: a snapshot, or of an older record


class Reply(NamedTuple):
    """A sampler's answer. ``trace`` is None for players that are not language models."""

    text: str
    trace: TokenTrace | None = None


class ScoredReply(NamedTuple):
    """A reply with its probability, from a server that tells it."""

    text: str
    logprob: float | None  # of the whole text, in nats, as it was sampled; None: the server did not say


class Turn(NamedTuple):
    """One reply of one seat: the unit of turn-level credit.

    ``reward`` is what the game paid the seat from this turn until its next turn (or the end), so a
    seat's turn rewards sum to its return.
    """

    seat: int
    role: str
    player: str
    observation: str
    legal: tuple[str, ...]  # () where free text was asked for
    reply: str  # what was said
    action: str | None  # what was read; None: the reply was illegal
    reward: float
    trace: TokenTrace | None
    tool: str = ""  # the tool that the reply called; then the action is the call
    form: str = ""  # what an answer was to look like where free text was asked for
    # what the game paid beside, by name, from this turn until the seat's next
    named: tuple[tuple[str, float], ...] = ()


class Belief(NamedTuple):
    """What a seat believes of a question (a ``Probe``) in one position of a match. It was no turn, and nobody heard it.

    Where its player cannot be asked there is one record, of the first position, with neither answers' probabilities.
    """

    probe: str
    seat: int
    after: int  # turns of the match that came before
    observation: str  # what the seat saw
    answers: tuple[str, ...]  # [A]
    truths: tuple[str, ...]  # the answers that are right; () where the game does not say
    probabilities: tuple[float, ...]  # of each answer, as the player's engine has them; () for one not asked  # [A]

    @property
    def in_truth(self) -> float | None:
        """The probability of the right answers together; None where they, or the belief, are not known."""
        if not self.truths or not self.probabilities:
            return None
        return sum([p for answer, p in zip(self.answers, self.probabilities, strict=True) if answer in self.truths])


class EndReason(StrEnum):
    """How a match ended."""

    FINISHED = "finished"  # by the game's rules
    FORFEIT = "forfeit"  # by a seat that ran out of legal replies


class Episode(NamedTuple):
    """The record of a match, with its submatches' records in the order in which they were opened.

    The index of a submatch's request is its position in that order, until ``flatten_episodes`` numbers it within the
    run.
    """

    request: MatchRequest
    turns: tuple[Turn, ...]
    returns: tuple[float, ...]  # in the game's units  # [seats]
    end: EndReason
    offender: int | None = None  # the seat that forfeited
    children: tuple[Episode, ...] = ()
    outcome: str = ""  # what the parent of a submatch learns of it
    beliefs: tuple[Belief, ...] = ()  # answers to probes, position by position
    shaping: tuple[float, ...] = ()  # what is paid beside the game for each turn, in units of scaled returns  # [K]
    # by seat the share of the other matches of its start that a judge prefers this to; None: not compared  # [seats]
    preferred: tuple[float | None, ...] = ()
    failed: tuple[str, ...] = ()  # GAME/ROLE of each request that failed, after which the match began again


def flatten_episodes(episodes: Iterable[Episode]) -> list[Episode]:
    """Return all episodes without their children, each followed by its submatches.

    Submatches are numbered on from the greatest index, in this order, and have the index of their parent as parent.
    """
    roots = list(episodes)
    if not any(root.children for root in roots):
        return roots
    numbers = itertools.count(max((root.request.index for root in roots), default=-1) + 1)
    return [episode for root in roots for episode in _flatten(root, numbers)]


def _flatten(episode: Episode, numbers: Iterator[int]) -> Iterator[Episode]:
    """Yield an episode and then all below it, numbered."""
    yield episode._replace(children=()) if episode.children else episode
    for child in episode.children:
        request = child.request._replace(index=next(numbers), parent=episode.request.index)
        yield from _flatten(child._replace(request=request), numbers)


class Sampler(Protocol):
    """An engine that replies to a batch of requests, possibly of several players, in their order."""

    def sample(self, requests: Sequence[ReplyRequest]) -> list[Reply]:
        """Return one reply for each request. A failure is raised."""
        ...


@runtime_checkable
class Streaming(Protocol):
    """An engine that replies to each request as soon as it can, while other requests are under way."""

    def submit(self, request: ReplyRequest) -> Future[Reply]:
        """Submit a request. All random numbers must come from ``request.rng`` and be drawn before this returns, so that
        replies do not depend on their order. The future may be cancelled.
        """
        ...


@runtime_checkable
class PinsWeights(Protocol):
    """An engine whose players' weights may change during matches: each match keeps the weights that it began with."""

    def pin(self, player: str) -> str:
        """Pin a player's present weights and return an id. Requests with this id in place of the player's are replied
        to with these weights, until ``unpin`` has been called as often as ``pin`` has returned the id.
        """
        ...

    def unpin(self, weights: str) -> None:
        """Undo one ``pin``."""
        ...


@runtime_checkable
class Believing(Protocol):
    """An engine whose players can be asked about a position outside their turns."""

    def beliefs(self, requests: Sequence[ReplyRequest]) -> list[tuple[float, ...] | None]:
        """Return for each request the probability of each of ``request.legal``; None for a player without a belief.

        Nothing that it replies later may depend on having been asked, and ``request.rng`` is not drawn from.
        """
        ...


class DrawnChoice(NamedTuple):
    """The replies to one position, of which one number draws one."""

    replies: list[Reply]  # [A]
    cumulated: list[float] | None = None  # their probabilities, each added to those before; None: all are alike  # [A]

    def draw(self, rng: random.Random) -> Reply:
        """Draw one reply by one number of ``rng``."""
        number, cuts = rng.random(), self.cumulated
        if cuts is None:
            return self.replies[int(number * len(self.replies))]
        return self.replies[bisect_right(cuts, number * cuts[-1], 0, len(cuts) - 1)]


@runtime_checkable
class Draws(Protocol):
    """A Sampler that draws each reply with one number, from what depends on player, role and position alone.

    ``choices`` holds until ``changes`` grows, and ``sample`` draws from it as ``DrawnChoice.draw`` does.
    """

    changes: int  # how often players' weights have changed
    alone: bool  # whether a choice is the same, to the last bit, whatever else is asked in the same call
    tokens: int  # prompt and reply tokens that the replies so far consist of

    def choices(self, requests: Sequence[ReplyRequest]) -> list[DrawnChoice]:
        """Return what ``sample`` draws from, for requests of ``choice`` roles; nothing is drawn."""
        ...


@runtime_checkable
class Tabular(Protocol):
    """An engine that can return its policy's probabilities, from which values are computed without sampling."""

    def distributions(self, requests: Sequence[ReplyRequest]) -> list[tuple[float, ...]]:
        """Return for each request the probability of each of ``request.legal``, in that order."""
        ...


@runtime_checkable
class TabularInBulk(Tabular, Protocol):
    """A Tabular engine that computes the distributions of very many prompts that begin alike in less time."""

    def bulk_distributions(self, requests: Sequence[ReplyRequest]) -> Sequence[Sequence[float]]:
        """Return what ``distributions`` returns, up to rounding; nothing is kept for later requests."""
        ...


@runtime_checkable
class TellsLogprobs(Protocol):
    """An engine whose replies may come with their probabilities, though it cannot list those of all replies."""

    def tells_logprobs(self) -> bool:
        """Return whether it does. It may ask once to find out."""
        ...

    def score(self, requests: Sequence[ReplyRequest]) -> list[ScoredReply]:
        """Return one reply for each request, drawn as by ``sample``, with its probability."""
        ...
