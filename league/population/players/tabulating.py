"""A player's policy as a table, state by state: from its probabilities, an endpoint's log-probs, or counted replies."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from arena.contexts import request_in
from arena.records import ReplyRequest, Sampler, Tabular, TabularInBulk, TellsLogprobs
from games.common.errors import NotEnumerable
from games.spec import Game
from league.theory.exact.exploitability import PolicyTable, information_positions
from league.theory.exact.states import Key
from roles.replies import parse_reply
from roles.role import OnIllegal, ReplyForm, Role
from roles.slots import written_slots
from roles.truncation import NO_TRUNCATION

REPLIES_PER_STATE = 1024  # sampled where a policy's probabilities are not known exactly
SCORED_AT_ONCE = 8  # replies whose probabilities are asked for before it is looked whether they are enough
UNSEEN = 1e-3  # share of a state's replies that may be unknown where the rest are known by their log-probs


class TableSource(StrEnum):
    """What a table was read from."""

    PROBABILITIES = "probabilities"  # the engine's own: exact
    LOGPROBS = "log-probs"  # of an endpoint's replies: all but ``unseen`` of each state is known
    REPLIES = "replies"  # counted
    SAMPLED_STATES = "sampled states"  # the probabilities at some states: no table, but bounds on what it gives away


class TabulatedPolicy(NamedTuple):
    """A player's policy as a table."""

    table: PolicyTable
    exact: bool  # False: estimated from sampled replies, or read from an endpoint's log-probs
    illegal_rate: float  # of the sampled replies; the table holds the shares of the legal ones
    source: TableSource = TableSource.PROBABILITIES  # the least certain of its states'
    replies: int = 0  # that were sampled
    # legal replies by action, ascending ids, of the states that were counted; None: of a mixture of such tables
    counts: Mapping[Key, tuple[int, ...]] | None = {}
    unseen: float = 0.0  # the greatest share of a state's replies that log-probs left unknown

    @classmethod
    def of(
        cls, table: PolicyTable, readers: Sequence[PolicyReader], counts: Mapping[Key, tuple[int, ...]] | None
    ) -> TabulatedPolicy:
        """Return what ``readers`` read, and from what."""
        replies = sum(reader.replies for reader in readers)
        rate = sum(reader.illegal for reader in readers) / replies if replies else 0.0
        counted = counts is None or bool(counts)
        source = TableSource.REPLIES if counted else TableSource.LOGPROBS if replies else TableSource.PROBABILITIES
        unseen = max((row.unseen for reader in readers for row in reader.rows), default=0.0)
        return cls(table, not replies, rate, source, replies, counts, unseen)


class StateRow(NamedTuple):
    """What was read of one state."""

    shares: tuple[float, ...]  # of the legal actions, in their order
    counts: tuple[int, ...] = ()  # legal replies by action, in their order; (): the shares are known
    unseen: float = 0.0


class PolicyReader:
    """Reads a player id's distributions from its engine, and counts the replies that had to be sampled."""

    def __init__(
        self,
        identity: str,
        engine: Sampler,
        roles: Sequence[Role],
        rng: random.Random,
        replies_per_state: int = REPLIES_PER_STATE,
        bulk: bool = False,
    ) -> None:
        """``bulk``: calls are for very many positions, which an engine that can (``TabularInBulk``) takes together."""
        self._bulk = bulk
        self._identity, self._engine, self._roles, self._rng = identity, engine, roles, rng
        self._replies_per_state = replies_per_state
        self.replies = self.illegal = 0
        self.rows: list[StateRow] = []  # in the order of the last call

    def __call__(self, positions: Sequence[tuple[int, Game]]) -> list[tuple[float, ...]]:
        """Return the distribution over the legal actions of each (seat, position)."""
        requests = [self._request(seat, game) for seat, game in positions]
        engine = self._engine
        if isinstance(engine, Tabular) and all(request.role.reply is ReplyForm.CHOICE for request in requests):
            together = engine.bulk_distributions if self._bulk and isinstance(engine, TabularInBulk) else None
            self.rows = [StateRow(tuple(row)) for row in (together or engine.distributions)(requests)]
        elif isinstance(engine, TellsLogprobs) and all(map(_plain, requests)) and engine.tells_logprobs():
            self.rows = [self._scored(engine, request) for request in requests]
        else:
            self.rows = [self._counted(engine, request) for request in requests]
        return [row.shares for row in self.rows]

    def counts(self, game: str, limit: int) -> dict[Key, tuple[int, ...]]:
        """Return the counts of the states that were counted, by action id, of the game that was tabulated."""
        counted = {}
        for ((seat, state), position), row in zip(information_positions(game, limit).items(), self.rows, strict=True):
            if row.counts:
                by_id = sorted(zip(position.legal_ids(), row.counts, strict=True))
                counted[seat, state] = tuple(count for _, count in by_id)
        return counted

    def _request(self, seat: int, game: Game) -> ReplyRequest:
        role = self._roles[seat]
        if written := written_slots(role.slots):
            raise NotEnumerable(
                f"No table can be made of {role.name} in {role.game}: what fills {{{written[0]}}} on its card is "
                "written in each match, so a position alone does not determine what it sees. Play matches of it, or "
                "fill the slot by window."
            )
        return request_in(self._identity, role, game, self._rng)

    def _counted(self, engine: Sampler, request: ReplyRequest) -> StateRow:
        """Return the legal actions' shares of sampled replies; uniform if no reply was legal."""
        replies = engine.sample([request] * self._replies_per_state)
        return self._row(request, [reply.text for reply in replies])

    def _scored(self, engine: TellsLogprobs, request: ReplyRequest) -> StateRow:
        """Return the actions' probabilities from those of the replies drawn, once these are nearly all. A text's
        probability is known once it was drawn, and different texts add up. If they do not come near 1 (a server that
        reports them before its mask, long replies), the replies drawn are counted instead.
        """
        texts: list[str] = []
        logprobs: dict[str, float] = {}
        while len(texts) < self._replies_per_state:
            more = min(SCORED_AT_ONCE, self._replies_per_state - len(texts))
            for reply in engine.score([request] * more):
                texts.append(reply.text)
                logprob = -math.inf if reply.logprob is None else reply.logprob
                logprobs[reply.text] = max(logprobs.get(reply.text, -math.inf), logprob)
            if (row := known_row(request.role, request.legal, logprobs)) is not None:
                self.replies += len(texts)
                self.illegal += sum(parse_reply(request.role, text, request.legal) is None for text in texts)
                return row
        return self._row(request, texts)

    def _row(self, request: ReplyRequest, texts: Sequence[str]) -> StateRow:
        actions = [parse_reply(request.role, text, request.legal) for text in texts]
        counts = tuple(actions.count(action) for action in request.legal)
        self.replies += len(actions)
        self.illegal += actions.count(None)
        shares = tuple(count / sum(counts) if any(counts) else 1 / len(counts) for count in counts)
        return StateRow(shares, counts)


def known_row(role: Role, legal: Sequence[str], logprobs: Mapping[str, float]) -> StateRow | None:
    """Return the actions' probabilities from those of different replies, in nats; None if too much is unknown.

    Where replies are masked and all actions but one were drawn, the last one has what is left.
    """
    masses = dict.fromkeys(legal, 0.0)
    illegal = 0.0
    for text, logprob in logprobs.items():
        action = parse_reply(role, text, legal)
        if action is None:
            illegal += math.exp(logprob)
        else:
            masses[action] += math.exp(logprob)
    left = 1.0 - math.fsum(masses.values()) - illegal
    missing = [action for action, mass in masses.items() if mass == 0.0]
    if left < -UNSEEN or not any(masses.values()):  # they are not the probabilities of these replies
        return None
    if role.conduct.on_illegal is OnIllegal.MASK and len(missing) == 1 and left > 0.0:
        masses[missing[0]], left = left, 0.0
    if left > UNSEEN:
        return None
    total = math.fsum(masses.values())
    return StateRow(tuple(mass / total for mass in masses.values()), unseen=max(left, 0.0) / total)


def _plain(request: ReplyRequest) -> bool:
    """Return whether replies are drawn as the model has them, so that its log-probs are those of the replies."""
    return request.role.temperature == 1.0 and request.role.truncation == NO_TRUNCATION
