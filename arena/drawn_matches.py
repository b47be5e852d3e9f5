"""Matches whose every reply is one number drawn from what is known of a position: no coroutine, and few new objects.

In a game whose positions all matches share, a match between players that ``Draws`` is a walk down a tree: chance and
the seats each choose a branch by one number. A tree is kept for a line-up, and what a path has made, its requests and
turns, is made once. The episodes are those of ``arena.referee``, bit for bit: numbers come from the same two
generators in the same order, and turns are recorded by the same code.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple, cast

from arena.errors import one_for_each
from arena.match_rng import SALT, MatchRng
from arena.records import DrawnChoice, Draws, EndReason, Episode, MatchRequest, ReplyRequest, Turn
from arena.referee import TurnRecord, unmasked_reply
from games.common.errors import UsageError
from games.openspiel.positions import Chance, Position, SharesPositions, next_random
from games.spec import Game
from roles.replies import parse_reply
from roles.role import OnIllegal, ReplyForm, Role

MOST_NODES = 50_000  # of a line-up's tree; then a new one is started, so that a large game does not fill the memory

_FINISHED = EndReason.FINISHED
_MASK = (1 << 64) - 1
_UNUSED = MatchRng()  # of requests that are answered by a ``DrawnChoice``: that draws nothing


class End(NamedTuple):
    """What all matches that end in one place have in common."""

    turns: tuple[Turn, ...]
    returns: tuple[float, ...]  # [seats]
    tokens: tuple[tuple[Draws, int], ...]  # how many tokens each engine's replies consist of


class _Node:
    """Where a seat replies, chance moves or the match ends, reached by one path."""

    __slots__ = ("before", "choice", "cuts", "deals", "end", "engine", "next", "place", "request", "size", "taken")

    def __init__(self, place: Position | Chance, before: _Node | None, taken: int) -> None:
        self.place, self.before, self.taken = place, before, taken  # the last reply on the path: whose node, and which
        self.deals = place.__class__ is Chance
        self.next: list[_Node | None] = []  # by outcome or reply
        self.cuts: list[float] | None = None  # the branches' cumulated probabilities; None: all are alike
        self.size = 0  # branches
        self.request: ReplyRequest | None = None
        self.engine: Draws | None = None
        self.choice: DrawnChoice | None = None  # None: not asked yet
        self.end: End | None = None
        if isinstance(place, Chance):
            self.cuts, self.size = place.cumulative, len(place.outcomes)
            self.next = [None] * self.size

    def decide(self, choice: DrawnChoice) -> None:
        """Take the replies between which the seat draws."""
        self.choice, self.cuts, self.size = choice, choice.cumulated, len(choice.replies)
        self.next = [None] * self.size


class Lineup:
    """The matches of one game between the same players."""

    def __init__(self, game: Any, roles: Sequence[Role], players: Sequence[tuple[str, Draws]]) -> None:
        """``players`` are the names by seat, each with its engine, and ``game`` ``SharesPositions``.  # [seats]"""
        self.seats = len(players)
        self.alone = all(engine.alone for _, engine in players)  # no reply depends on what else is asked
        self._game, self._tree, self._roles, self._players = game, game.tree, roles, players
        self._begin()

    def _begin(self) -> None:
        self._nodes = 0
        self.root = self._node(self._tree.root, None, 0)

    def play(self, request: MatchRequest) -> Episode:
        """Play a match to its end, between players whose replies depend on nothing else that is asked."""
        node, deal, sample = self.root, request.deal_seed, request.sample_seed ^ SALT
        while following := node.next:  # SplitMix64, as ``MatchRng`` and ``next_random`` have it: a call takes longer
            if node.deals:
                deal = (deal + 0x9E3779B97F4A7C15) & _MASK
                mixed = ((deal ^ (deal >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
                mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
                branch = bisect_right(node.cuts, ((mixed ^ (mixed >> 31)) >> 11) * 2.0**-53)  # type: ignore[arg-type]
            else:
                sample = (sample + 0x9E3779B97F4A7C15) & _MASK
                mixed = ((sample ^ (sample >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
                mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
                number = ((mixed ^ (mixed >> 31)) >> 11) * 2.0**-53
                cuts = node.cuts
                if request.explore:
                    number, cuts = _explored(number, cuts, request.explore[_position(node).seat or 0])
                if cuts is None:
                    branch = int(number * node.size)
                else:
                    branch = bisect_right(cuts, number * cuts[-1], 0, node.size - 1)
            node = following[branch] or self.after(node, branch)
        return self.episode(request, node)

    def episode(self, request: MatchRequest, node: _Node) -> Episode:
        """Return the record of a match that has ended in a node."""
        end = node.end or self._end(node)
        for engine, tokens in end.tokens:
            engine.tokens += tokens
        if self._nodes > MOST_NODES:
            self._begin()
        return Episode(request, end.turns, end.returns, _FINISHED)

    def after(self, node: _Node, branch: int) -> _Node:
        """Return the node after an outcome of chance, or a reply. Raises RuntimeError for an illegal reply."""
        if isinstance(node.place, Chance):
            place = self._tree.after_chance(node.place, branch)
            reached = self._node(place, node.before, node.taken)
        else:
            reached = self._node(self._tree.after(node.place, _action(node, branch)), node, branch)
        node.next[branch] = reached
        return reached

    def _node(self, place: Position | Chance, before: _Node | None, taken: int) -> _Node:
        self._nodes += 1
        node = _Node(place, before, taken)
        if isinstance(place, Position) and place.seat is not None:
            seat = place.seat
            player, node.engine = self._players[seat]
            game, legal = self._game.at(place), place.choices.labels
            node.request = ReplyRequest(player, self._roles[seat], game, place.text(seat), legal, (), _UNUSED)
            if self.alone:
                decide(node.engine, [(node.request, node)])
        return node

    def _end(self, node: _Node) -> End:
        """Record the turns of the path to a node."""
        path = [node]
        while (before := path[-1].before) is not None:
            path.append(before)
        path.reverse()
        record, tokens = TurnRecord(_position(path[0]).returns), dict[int, tuple[Draws, int]]()
        for turn, reached in pairwise(path):
            seat = _position(turn).seat
            assert seat is not None
            assert turn.request is not None
            assert turn.choice is not None
            assert turn.engine is not None
            reply = turn.choice.replies[reached.taken]
            record.add_turn(seat, turn.request, reply, _action(turn, reached.taken))
            if any(rewards := _position(reached).rewards):
                record.pay(rewards)
            if reply.trace is not None:
                _, counted = tokens.get(id(turn.engine), (turn.engine, 0))
                tokens[id(turn.engine)] = (
                    turn.engine,
                    counted + len(reply.trace.prompt_ids) + len(reply.trace.reply_ids),
                )
        node.end = End(record.turns(), _position(node).returns, tuple(tokens.values()))
        return node.end


def _position(node: _Node) -> Position:
    assert isinstance(node.place, Position)
    return node.place


def _explored(number: float, cuts: list[float] | None, share: float) -> tuple[float, list[float] | None]:
    """Return a number in [0, 1) and what it draws from: with probability ``share`` all branches alike (None)."""
    if number < share:
        return number / share, None
    return (number - share) / (1.0 - share), cuts


def _action(node: _Node, branch: int) -> str:
    """Return the action that a reply names."""
    assert node.request is not None
    assert node.choice is not None
    text = node.choice.replies[branch].text
    action = parse_reply(node.request.role, text, node.request.legal)
    if action is None:
        raise unmasked_reply(node.request, text)
    return action


class DrawnMatch:
    """A match in flight between players whose replies are computed together, so that it moves with all others."""

    __slots__ = ("deal", "index", "lineup", "node", "request", "sample")

    parent = None  # no match opens it
    pinned = None

    def __init__(self, index: int, request: MatchRequest, lineup: Lineup) -> None:
        self.index, self.request, self.lineup = index, request, lineup
        self.node, self.deal, self.sample = lineup.root, request.deal_seed, request.sample_seed ^ SALT
        self._settle()

    @property
    def reply_request(self) -> ReplyRequest:
        """What it waits for."""
        assert self.node.request is not None
        return self.node.request

    def move(self) -> Episode | None:
        """Draw the reply that it waits for; return the episode if the match has ended."""
        node = self.node
        self.sample, number = next_random(self.sample)
        cuts = node.cuts
        if self.request.explore:
            number, cuts = _explored(number, cuts, self.request.explore[_position(node).seat or 0])
        branch = int(number * node.size) if cuts is None else bisect_right(cuts, number * cuts[-1], 0, node.size - 1)
        self.node = node = node.next[branch] or self.lineup.after(node, branch)
        if node.deals:
            node = self._settle()
        return None if node.request is not None else self.lineup.episode(self.request, node)

    def _settle(self) -> _Node:
        """Let chance move until a seat must reply or the match is over."""
        node = self.node
        while node.deals:
            self.deal, number = next_random(self.deal)
            branch = bisect_right(node.cuts, number)  # type: ignore[arg-type]
            node = node.next[branch] or self.lineup.after(node, branch)
        self.node = node
        return node


def decide(engine: Draws, requests: Sequence[tuple[ReplyRequest, _Node | None]]) -> None:
    """Ask an engine for the choices of nodes, and of requests beside them that it will sample for.

    Raises EngineError, with engine and players named, if it fails.
    """
    asked = [request for request, _ in requests]
    choices = one_for_each(engine, engine.choices, asked, asked="requests for", given="choices for")
    for (_, node), choice in zip(requests, choices, strict=True):
        if node is not None:
            node.decide(choice)


def undecided(matches: Iterable[Any]) -> list[tuple[ReplyRequest, _Node | None]]:
    """Return what to ask an engine for, in the order in which it would see the requests of matches of both kinds."""
    nodes = dict[int, None]()
    asked: list[tuple[ReplyRequest, _Node | None]] = []
    for match in matches:
        node = match.node if isinstance(match, DrawnMatch) else None
        if node is None:
            if match.reply_request.role.reply is ReplyForm.CHOICE:
                asked.append((match.reply_request, None))
        elif node.choice is None and id(node) not in nodes:
            nodes[id(node)] = None
            asked.append((match.reply_request, node))
    return asked if nodes else []


def refuse_exploring(request: MatchRequest) -> None:
    """Raise UsageError for a match that explores though the referee plays it, who draws nothing itself."""
    if request.explore:
        raise UsageError(
            f"matchmaking.explore is for matches whose every reply is drawn from known probabilities, but those of "
            f"{request.game} between {', '.join(dict.fromkeys(request.players))} are not. Set matchmaking.explore = 0, "
            "or choose an OpenSpiel game with masked replies and pocket or local models."
        )


class Lineups:
    """Which matches are drawn: those of games that share positions, between engines that draw, in plain roles."""

    def __init__(
        self,
        roles_of: Callable[[str], Sequence[Role]],
        make_game: Callable[[str], Game],
        engine_of: Callable[[str], Any],
    ) -> None:
        self._roles_of, self._make_game, self._engine_of = roles_of, make_game, engine_of
        self._lineups: dict[tuple[str, tuple[str, ...]], Lineup | None] = {}
        self._games: dict[str, Game | None] = {}  # None: its matches are played by the referee
        self._engines: dict[int, Draws] = {}  # of the line-ups
        self._changes = 0  # of their weights

    def forget_old(self) -> None:
        """Forget all trees, if an engine's weights have changed since they were grown."""
        changes = sum([engine.changes for engine in self._engines.values()])
        if changes != self._changes:
            self._changes = changes
            self._lineups.clear()

    def of(self, request: MatchRequest) -> Lineup | None:
        """Return the line-up of a match; None for one that the referee plays."""
        key = request.game, request.players
        try:
            lineup = self._lineups[key]
        except KeyError:
            lineup = self._lineups[key] = self._new(*key)
        if lineup is None or request.branch or request.prefix or request.task or request.start:
            return None
        return lineup if request.parent is None and len(request.trained) == lineup.seats else None

    def _new(self, name: str, players: tuple[str, ...]) -> Lineup | None:
        engines = [self._engine_of(player) for player in players]
        if not all(map(draws, engines)):
            return None
        if name not in self._games:
            made, roles = self._make_game(name), self._roles_of(name)
            self._games[name] = made if _is_plain(made, roles) else None
        game = self._games[name]
        if game is None or len(players) != game.spec.seats:
            return None
        for engine in engines:
            if id(engine) not in self._engines:
                self._engines[id(engine)] = engine
                self._changes += engine.changes
        return Lineup(game, self._roles_of(name), list(zip(players, engines, strict=True)))


def _is_plain(game: Game, roles: Sequence[Role]) -> bool:
    """Return whether nothing happens in a game's matches but chance and masked choices of one reply."""
    return (
        isinstance(game, SharesPositions)
        and game.tree is not None
        and len(roles) == game.spec.seats
        and not any(role.tools or role.probes or role.slots for role in roles)
        and all(role.reply is ReplyForm.CHOICE and role.conduct.on_illegal is OnIllegal.MASK for role in roles)
    )


def draws(engine: object) -> bool:
    """Return whether an engine's replies are drawn from its choices: not where another ``sample`` was put over them."""
    return "sample" not in vars(engine) and _class_draws(cast(Any, type(engine)))


@cache
def _class_draws(engine_class: Any) -> bool:
    owners = [next((c for c in engine_class.__mro__ if name in vars(c)), None) for name in ("sample", "choices")]
    return owners[0] is not None and owners[0] is owners[1]
