"""Plays one match as a coroutine. The referee is the only caller of ``Game.apply``."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from functools import partial
from typing import Any, cast

from arena.contexts import Contexts, request_for
from arena.match_rng import MatchRng
from arena.records import EndReason, Episode, MatchRequest, Refusal, Reply, ReplyRequest, Turn
from arena.submatches import Submatches, begin_match
from arena.tool_calls import CallLimits, ToolRequest
from arena.tools import ToolSession
from games.abilities import PaysNamedRewards
from games.common.errors import UsageError
from games.spec import FreeText, Game, GameSpec, HasTools
from roles.conduct import retry_message, settle_forfeit
from roles.replies import parse_reply, read_free_text
from roles.role import OnIllegal, Role

_FINISHED = EndReason.FINISHED  # in Python 3.11, the lookup of an enum member takes longer than making the record
_REWARD, _NAMED = map(Turn._fields.index, ("reward", "named"))


def play_match(
    request: MatchRequest, game: Game, roles: Sequence[Role], *, plain: bool = False
) -> Generator[ReplyRequest | ToolRequest | tuple[MatchRequest, ...], Any, Episode]:
    """Play a match to its end: yield each seat's request, receive its reply, return the record.

    The request of a tool's output is answered by a text, and that of a move by nothing once it is made. Requests of
    submatches are yielded together as a tuple, and their episodes are received in the same order.
    ``game`` is reset with the request's deal seed; ``roles`` are by seat.  # [seats]
    ``plain``: it is known that no role has tools or slots (``is_plain``), so that no match has to look.
    An illegal reply is a Turn without an action. Raises UsageError if the request does not fit the game, and
    RuntimeError for an illegal reply of a role whose replies are masked: then the engine did not mask.
    """
    spec = game.spec
    submatches = _begin(request, game, spec, roles)
    tools, contexts = (None, None) if plain else (_tools(roles, game), _contexts(request, roles, game))
    rng, branch, record = MatchRng(request.sample_seed), request.branch, TurnRecord(game.returns())
    while (seat := game.to_act()) is not None:
        if contexts is not None:
            yield from _written(request, contexts, game, seat, rng, record)
        asked, turn_request = _ask(request, game, roles[seat], seat, tools, rng, contexts)
        action = None
        while action is None:
            if branch:
                turn_request = turn_request._replace(rng=_branch_rng(request, len(record), rng))
            reply = yield turn_request
            if asked is None:
                action = parse_reply(turn_request.role, reply.text, turn_request.legal)
            else:
                action = read_free_text(asked, reply.text)
            if action is not None and tools is None:  # the common case: the call below would slow play down
                record.add_turn(seat, turn_request, reply, action)
                break
            action, next_request = yield from _record_reply(seat, turn_request, reply, action, record, tools, asked)
            if next_request is None:
                return _with_children(_forfeit(request, game, record, seat, turn_request.role), submatches)
            turn_request = next_request
        game.apply(action) if spec.elsewhere is None else (yield _move(spec.elsewhere, game, action))
        if submatches is not None and (requests := submatches.requests(len(record))):
            submatches.close((yield requests))
        _pay(record, game, spec)
    if contexts is not None:
        yield from _written(request, contexts, game, None, rng, record)
    return _with_children(Episode(request, record.turns(), game.returns(), _FINISHED), submatches)


def _pay(record: TurnRecord, game: Game, spec: GameSpec) -> None:
    """Record what the last action paid."""
    if any(rewards := game.rewards()):
        record.pay(rewards)
    if spec.reward_names:
        record.pay_named(cast(PaysNamedRewards, game).named_rewards())


def is_plain(roles: Sequence[Role]) -> bool:
    """Return whether no role has tools or slots."""
    return not any(role.tools or role.slots for role in roles)


def _tools(roles: Sequence[Role], game: Game) -> ToolSession | None:
    """Return a match's tools; None where no card has any, or the game has none."""
    return ToolSession(game) if any(role.tools for role in roles) and isinstance(game, HasTools) else None


def _contexts(request: MatchRequest, roles: Sequence[Role], game: Game) -> Contexts | None:
    """Return what fills the slots of a match's roles; None where no card has any."""
    return Contexts(request, roles, game) if any(role.slots for role in roles) else None


def _written(
    match: MatchRequest, contexts: Contexts, game: Game, seat: int | None, rng: MatchRng, record: TurnRecord
) -> Generator[ReplyRequest, Reply, None]:
    """Ask for what fills a seat's slots now, and record each text as a turn that makes no move; None: at the end."""
    seats = range(game.spec.seats) if seat is None else (seat,)
    for wanted in [text for place in seats for text in contexts.wanted(game, place, rng, seat is None)]:
        request = wanted.request._replace(rng=_branch_rng(match, len(record), rng))
        reply = yield request
        record.add_turn(wanted.writer, request, reply, contexts.take(wanted, reply), wanted.filling.slot)


def _with_children(episode: Episode, submatches: Submatches | None) -> Episode:
    return episode if submatches is None else submatches.with_children(episode)


class TurnRecord:
    """The replies and rewards so far. A reward goes to the seat's latest turn; before the first turn, to that turn."""

    __slots__ = ("_early", "_early_named", "_latest", "_named", "_turns")

    def __init__(self, initial_returns: Sequence[float]) -> None:
        self._turns: list[list[Any]] = []  # the fields of each ``Turn``, whose reward still changes
        self._latest: list[int | None] = [None] * len(initial_returns)  # index of the latest turn, by seat
        self._early = list(initial_returns)  # rewards from before the first turn, by seat
        self._named: dict[int, dict[str, float]] = {}  # by turn, what was paid beside by name
        self._early_named: dict[int, dict[str, float]] = {}  # by seat, the same from before its first turn

    def __len__(self) -> int:
        return len(self._turns)

    def add_turn(self, seat: int, request: ReplyRequest, reply: Reply, action: str | None, tool: str = "") -> None:
        """Record the seat's next turn; ``tool`` is the tool that it calls."""
        if seat in self._early_named:
            self._named[len(self._turns)] = self._early_named.pop(seat)
        self._latest[seat] = len(self._turns)
        player, role, _, observation, legal, _, _, form, _, _ = request
        reward, self._early[seat] = self._early[seat], 0.0
        self._turns.append(
            [seat, role.name, player, observation, legal, reply.text, action, reward, reply.trace, tool, form, ()]
        )

    def pay(self, amounts: Sequence[float]) -> None:
        """Add a reward for each seat."""  # [seats]
        for seat, amount in enumerate(amounts):
            if amount:
                latest = self._latest[seat]
                if latest is None:
                    self._early[seat] += amount
                else:
                    self._turns[latest][_REWARD] += amount

    def pay_named(self, paid: Mapping[str, Sequence[float]]) -> None:
        """Add rewards by name, for each seat."""
        for name, amounts in paid.items():
            for seat, amount in enumerate(amounts):
                if amount:
                    latest = self._latest[seat]
                    sums = (
                        self._early_named.setdefault(seat, {}) if latest is None else self._named.setdefault(latest, {})
                    )
                    sums[name] = sums.get(name, 0.0) + amount

    def turns(self) -> tuple[Turn, ...]:
        """Return the turns with their rewards."""
        for index, paid in self._named.items():
            self._turns[index][_NAMED] = tuple(paid.items())
        return tuple(map(Turn._make, self._turns))


def _ask(
    request: MatchRequest,
    game: Game,
    role: Role,
    seat: int,
    tools: ToolSession | None,
    rng: MatchRng,
    contexts: Contexts | None,
) -> tuple[FreeText | None, ReplyRequest]:
    """Return the first request of a turn, and how to read its reply where it asks for free text."""
    actions = game.actions()
    shown = game.observe(seat) if contexts is None or not role.slots else contexts.shown(game, seat)
    turn_request = request_for(request.players[seat], role, game, shown, actions, rng)
    if isinstance(actions, FreeText):  # it has no tools
        return actions, turn_request
    return None, turn_request if tools is None else tools.begin_turn(turn_request)


def _record_reply(
    seat: int,
    request: ReplyRequest,
    reply: Reply,
    action: str | None,
    record: TurnRecord,
    tools: ToolSession | None,
    asked: FreeText | None,
) -> Generator[ToolRequest, str, tuple[str | None, ReplyRequest | None]]:
    """Record a reply; return its action, or None and the turn's next request. Both None: the seat has forfeited.

    The output of a tool that is not quick is asked for.
    """
    if tools is not None and (call := tools.find_call(request, reply.text, action)) is not None:
        record.add_turn(seat, request, reply, call.text, call.tool)
        output = tools.begin_call(request, call)
        return None, tools.end_call(request, call, output if isinstance(output, str) else (yield output))
    record.add_turn(seat, request, reply, action)
    return action, request if action is not None else _retry(request, reply.text, asked)


def _move(seconds: float, game: Game, action: str) -> ToolRequest:
    """Return the request of a move of a game that is played elsewhere."""
    return ToolRequest(CallLimits(game.spec.name, seconds), partial(game.apply, action), tells=False)


def _forfeit(request: MatchRequest, game: Game, record: TurnRecord, offender: int, role: Role) -> Episode:
    """Return the record of a match that ends by a forfeit; the settlement is a reward of each seat's last turn."""
    before = game.returns()
    settled = settle_forfeit(game, offender, role.conduct)
    record.pay([after - earlier for after, earlier in zip(settled, before, strict=True)])
    return Episode(request, record.turns(), settled, EndReason.FORFEIT, offender)


def _branch_rng(request: MatchRequest, turn: int, rng: MatchRng) -> MatchRng:
    """Return the generator of a turn's branch seed, or the match's generator beyond the last branch seed."""
    return MatchRng(request.branch[turn]) if turn < len(request.branch) else rng


def _retry(request: ReplyRequest, reply: str, asked: FreeText | None) -> ReplyRequest | None:
    """Return the request that follows an illegal reply, or None if the seat has forfeited."""
    conduct = request.role.conduct
    if conduct.on_illegal is OnIllegal.MASK:
        raise unmasked_reply(request, reply)
    if conduct.on_illegal is OnIllegal.FORFEIT or len(request.refusals) >= conduct.retries:
        return None
    refusal = Refusal(reply, retry_message(request.role, request.observation, reply, request.legal, asked))
    return request._replace(refusals=(*request.refusals, refusal))


def unmasked_reply(request: ReplyRequest, reply: str) -> RuntimeError:
    """Return the error of a role whose replies are masked, and one of them is illegal."""
    return RuntimeError(
        f"Player {request.player} answered {reply[:80]!r} as {request.role.name} in {request.role.game}, where "
        f"replies are masked to {', '.join(request.legal)}. Its engine does not mask: give the role on_illegal = "
        "'forfeit' or 'retry'."
    )


def _begin(request: MatchRequest, game: Game, spec: GameSpec, roles: Sequence[Role]) -> Submatches | None:
    """Bring the game to where the match begins; return the match's submatches, None where it opens none.

    Raises UsageError unless request, roles and game have the same number of seats.
    """
    if not len(request.players) == len(request.trained) == len(roles) == spec.seats:
        raise UsageError(
            f"{spec.name} has {spec.seats} seats, but match {request.index} names {len(request.players)} players, "
            f"{len(request.trained)} flags of who is trained and {len(roles)} roles."
        )
    opened = begin_match(game, request)
    return Submatches(request, game, opened) if spec.submatch_games else None
