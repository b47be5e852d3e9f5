"""Plays one match as a coroutine. The referee is the only caller of ``Game.apply``."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from arena.openings import Openings, begin_opened
from arena.records import EndReason, Episode, MatchRequest, Refusal, Reply, ReplyRequest, Turn
from arena.streams import Stream
from arena.tools import ToolSession
from games.errors import UsageError
from games.spec import Equipped, Game, GameSpec
from roles.conduct import refusal_reason, settle_forfeit
from roles.replies import parse_reply
from roles.role import OnIllegal, Role

_FINISHED = EndReason.FINISHED  # in Python 3.11, looking a member up in its class takes longer than making the record


def play_match(
    request: MatchRequest, game: Game, roles: Sequence[Role]
) -> Generator[ReplyRequest | tuple[MatchRequest, ...], Any, Episode]:
    """Play a match to its end: yield what each seat is asked, take its reply, return the record.

    Where the match opens others, their requests are yielded side by side, and their episodes taken in that
    order. ``game`` is reset with the request's deal seed; ``roles`` are by seat.  # [seats]
    Every illegal reply is a Turn without an action. Raises UsageError if the request does not fit the game, and
    RuntimeError for an illegal reply of a role whose replies are masked: then the engine did not mask.
    """
    spec = game.spec
    tools = _begin(request, game, spec, roles)
    rng, branch = Stream(request.sample_seed), request.branch
    opened = Openings(request, game) if spec.opens else None
    record = _Record(game.returns())
    while (seat := game.to_act()) is not None:
        asked = ReplyRequest(
            request.players[seat], roles[seat], game, game.observe(seat), game.legal_actions(), (), rng
        )
        if tools is not None:
            asked = tools.begin_turn(asked)
        action = None
        while action is None:
            if branch:
                asked = asked._replace(rng=_branch(request, len(record), rng))
            reply = yield asked
            action = parse_reply(asked.role, reply.text, asked.legal)
            if action is not None and tools is None:  # nearly always so: the other path's call would show in the speed
                record.add_turn(seat, asked, reply, action)
                break
            action, again = _answered(seat, asked, reply, action, record, tools)
            if again is None:
                return _ended(_forfeited(request, game, record, seat, asked.role), opened)
            asked = again
        game.apply(action)
        if any(rewards := game.rewards()):
            record.pay(rewards)
        if opened is not None and (requests := opened.requests(len(record))):
            opened.close((yield requests))
    return _ended(Episode(request, record.turns(), game.returns(), _FINISHED), opened)


def _ended(episode: Episode, opened: Openings | None) -> Episode:
    return episode if opened is None else opened.ended(episode)


class _Record:
    """The replies so far. A payment goes to each seat's latest turn, or before its first turn to that."""

    def __init__(self, opening: Sequence[float]) -> None:
        self._replies: list[tuple[int, ReplyRequest, Reply, str | None, str]] = []
        self._rewards: list[float] = []  # by turn
        self._latest: list[int | None] = [None] * len(opening)  # by seat, the place of its latest turn
        self._early = list(opening)  # by seat, what was paid before its first turn

    def __len__(self) -> int:
        return len(self._replies)

    def add_turn(self, seat: int, asked: ReplyRequest, reply: Reply, action: str | None, tool: str = "") -> None:
        """Begin the seat's next turn; ``tool`` is the one that it calls."""
        self._latest[seat] = len(self._replies)
        self._replies.append((seat, asked, reply, action, tool))
        self._rewards.append(self._early[seat])
        self._early[seat] = 0.0

    def pay(self, amounts: Sequence[float]) -> None:
        """Book what each seat was paid."""  # [seats]
        for seat, amount in enumerate(amounts):
            if amount:
                latest = self._latest[seat]
                if latest is None:
                    self._early[seat] += amount
                else:
                    self._rewards[latest] += amount

    def turns(self) -> tuple[Turn, ...]:
        """Return the turns with their rewards."""
        return tuple(
            [
                Turn(
                    seat,
                    asked.role.name,
                    asked.player,
                    asked.observation,
                    asked.legal,
                    reply.text,
                    action,
                    reward,
                    reply.trace,
                    tool,
                )
                for (seat, asked, reply, action, tool), reward in zip(self._replies, self._rewards, strict=True)
            ]
        )


def _answered(
    seat: int, asked: ReplyRequest, reply: Reply, action: str | None, record: _Record, tools: ToolSession | None
) -> tuple[str | None, ReplyRequest | None]:
    """Book a reply; return its action, or None and what the seat is asked next. Neither: it has forfeited."""
    if tools is not None and (call := tools.called(asked, reply.text, action)) is not None:
        record.add_turn(seat, asked, reply, call.text, call.tool)
        return None, tools.answer(asked, call)
    record.add_turn(seat, asked, reply, action)
    return action, asked if action is not None else _asked_again(asked, reply.text)


def _forfeited(request: MatchRequest, game: Game, record: _Record, offender: int, role: Role) -> Episode:
    """Return the record of a match that ends by a forfeit; the settlement is paid on each seat's last turn."""
    before = game.returns()
    settled = settle_forfeit(game.spec, before, offender, role.conduct)
    record.pay([after - earlier for after, earlier in zip(settled, before, strict=True)])
    return Episode(request, record.turns(), settled, EndReason.FORFEIT, offender)


def _branch(request: MatchRequest, turn: int, rng: Stream) -> Stream:
    """Return a turn's own stream, the match's where the branch has ended."""
    return Stream(request.branch[turn]) if turn < len(request.branch) else rng


def _asked_again(asked: ReplyRequest, reply: str) -> ReplyRequest | None:
    """Return the request that follows an illegal reply, or None if the seat has forfeited."""
    conduct = asked.role.conduct
    if conduct.on_illegal is OnIllegal.MASK:
        raise RuntimeError(
            f"Player {asked.player} answered {reply[:80]!r} as {asked.role.name} in {asked.role.game}, where replies "
            f"are masked to {', '.join(asked.legal)}. Its engine does not mask: give the role on_illegal = "
            "'forfeit' or 'retry'."
        )
    if conduct.on_illegal is OnIllegal.FORFEIT or len(asked.refusals) >= conduct.retries:
        return None
    refusal = Refusal(reply, refusal_reason(asked.role, asked.observation, reply, asked.legal))
    return asked._replace(refusals=(*asked.refusals, refusal))


def _begin(request: MatchRequest, game: Game, spec: GameSpec, roles: Sequence[Role]) -> ToolSession | None:
    """Deal, hand over what an opener gave, and return the match's tools if any role has some.

    Raises UsageError unless request, roles and game have the same number of seats. All of it is one function,
    because each call would show in the speed.
    """
    if not len(request.players) == len(request.trained) == len(roles) == spec.seats:
        raise UsageError(
            f"{spec.name} has {spec.seats} seats, but match {request.index} names {len(request.players)} players, "
            f"{len(request.trained)} marks of who is trained and {len(roles)} roles."
        )
    game.reset(request.deal_seed)
    if request.parent is not None:
        begin_opened(game, request)
    for role in roles:  # a generator expression would take longer than a turn's record
        if role.tools and isinstance(game, Equipped):
            return ToolSession(game)
    return None
