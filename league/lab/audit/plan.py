"""The plan of an audit: what is measured, in order of value, how long it takes, and what does not fit into the minutes.
It is made before any measurement, from the time that a player takes for a few positions. So the same audit of the same
player measures the same things, whatever else the machine does, and an endpoint's cost is known beforehand.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from arena.contexts import request_in
from arena.records import Tabular, TellsLogprobs
from games.registry import make_game
from league.population.evaluation.asking_cost import (
    AskingCost,
    endpoint_settings,
    match_cost,
    replies_for,
    table_cost,
)
from league.population.evaluation.head_to_head import seatings
from league.population.players.player import Player
from league.population.players.tabulating import SCORED_AT_ONCE
from league.theory.exact.exploitability import information_positions
from roles.role import ReplyForm

GAMES = (  # small enough to be exact, from the fewest information states to the most: 12, 48, 90, 192, 936
    *("kuhn_poker", "kuhn_poker(players=3)", "goofspiel(num_cards=3,imp_info=True)", "liars_dice(dice_sides=3)"),
    "leduc_poker",
)
MET_IN = ("kuhn_poker", "leduc_poker")  # games in which matches are played
EDITS = ("renamed({})", "permuted({})", "paraphrased({})")  # of the first game: other labels, cards and words
PLANTED = "random"  # never errs, and plays at random
MATCHES = 400  # of two players in a game, as in `league match`
PROBED = 4  # positions by which a player's pace is taken
TURN = 1e-3  # seconds of a turn of a match, beside the player's
BEST_RESPONSE = 1.0  # seconds of a table's best responses, and of its intervals


class Kind(StrEnum):
    """What a task measures."""

    TABLE = "table"
    EDIT = "edit"  # the table of an edited game
    CONTROL = "control"  # a player against itself under another name
    MATCH = "match"


class AuditTask(NamedTuple):
    """One thing to be measured."""

    kind: Kind
    game: str
    players: tuple[str, ...]  # one, or two of a match

    def __str__(self) -> str:
        who = " and ".join(dict.fromkeys(self.players))
        return {
            Kind.TABLE: f"the table of {who} in {self.game}",
            Kind.EDIT: f"the table of {who} in {self.game}",
            Kind.CONTROL: f"{who} against itself in {self.game}",
            Kind.MATCH: f"matches of {who} in {self.game}",
        }[self.kind]


class Planned(NamedTuple):
    """A task with what it is expected to take."""

    task: AuditTask
    seconds: float
    costs: tuple[AskingCost, ...]  # at endpoints


class Plan(NamedTuple):
    """The tasks to be done, in their order, and those that do not fit."""

    minutes: float
    tasks: tuple[Planned, ...]
    left_out: tuple[Planned, ...]

    @property
    def seconds(self) -> float:
        """What all tasks are expected to take."""
        return sum(planned.seconds for planned in self.tasks)

    def costs(self) -> list[AskingCost]:
        """Return the total of requests to each endpoint."""
        totals: dict[str, AskingCost] = {}
        for cost in itertools.chain.from_iterable(planned.costs for planned in self.tasks):
            totals[cost.player] = totals[cost.player].plus(cost) if cost.player in totals else cost
        return list(totals.values())

    def sentences(self) -> list[str]:
        """Return the plan for people: how long, what is left out, and the requests to each endpoint."""
        lines = [f"{len(self.tasks)} measurements, about {self.seconds / 60:.1f} of at most {self.minutes:g} minutes."]
        lines += [
            f"Left out, as it would take {planned.seconds / 60:.1f} minutes more: {planned.task}."
            for planned in self.left_out
        ]
        return lines + [cost.sentence("This audit") for cost in self.costs()]


class Pace(NamedTuple):
    """How fast a player is."""

    seconds: float  # of a position, or of a reply where replies are sampled
    replies: int  # at each information state, as expected; 1 where probabilities are known


def tasks_of(players: Sequence[str], checkpoints: Sequence[str]) -> Iterator[AuditTask]:
    """Yield all that could be measured, the most valuable first; ``checkpoints`` are earlier ones, of tables alone."""
    field = list(dict.fromkeys([*players, PLANTED]))
    pairs = [pair for pair in itertools.combinations(players, 2) if PLANTED not in pair]
    yield from (AuditTask(Kind.TABLE, GAMES[0], (name,)) for name in [*field, *checkpoints])
    yield from _met(GAMES[0], players)
    yield from (AuditTask(Kind.EDIT, edit.format(GAMES[0]), (name,)) for edit in EDITS for name in players)
    yield from (AuditTask(Kind.MATCH, GAMES[0], pair) for pair in pairs)
    for game in GAMES[1:]:
        yield from (AuditTask(Kind.TABLE, game, (name,)) for name in [*field, *checkpoints])
    for game in MET_IN[1:]:
        yield from _met(game, players)
        yield from (AuditTask(Kind.MATCH, game, pair) for pair in pairs)


def _met(game: str, players: Sequence[str]) -> Iterator[AuditTask]:
    yield from (AuditTask(Kind.CONTROL, game, (name, name)) for name in players)
    yield from (AuditTask(Kind.MATCH, game, (name, PLANTED)) for name in players if name != PLANTED)


def make_plan(
    tasks: Sequence[AuditTask],
    players: Mapping[tuple[str, str], Player],
    minutes: float,
    replies: int | None = None,
    paces: Mapping[str, Pace] | None = None,
) -> Plan:
    """Return the tasks that fit into the minutes, taken in their order; what is too long leaves room for later ones.

    ``players`` are by name and game. ``paces`` are measured where they are not given.
    """
    known: dict[str, Pace] = dict(paces or {})
    left, chosen, left_out = minutes * 60.0, [], []
    for task in tasks:
        for name in task.players:
            if name not in known:
                known[name] = pace_of(players[name, GAMES[0]], replies)
        planned = _planned(task, players, known, replies)
        if planned.seconds > left:
            left_out.append(planned)
            continue
        left -= planned.seconds
        chosen.append(planned)
    return Plan(minutes, tuple(chosen), tuple(left_out))


def pace_of(player: Player, replies: int | None = None) -> Pace:
    """Return how fast a player answers, from a few positions; of an endpoint, from one request like its first."""
    positions = list(information_positions(player.spec.name).items())[: PROBED + 1]
    requests = [
        request_in(player.members[seat][0][0], player.roles[seat], game, random.Random(f"pace/{seat}"))
        for (seat, _), game in positions
    ]
    engine = player.engine_of(requests[0].player)
    settings = endpoint_settings(player)
    if settings is not None:
        begun = time.perf_counter()
        player.engine.probe()  # type: ignore[attr-defined]
        limit = 60.0 / settings.requests_per_minute if settings.requests_per_minute else 0.0
        seconds = max((time.perf_counter() - begun) / settings.concurrency, limit)
        told = isinstance(engine, TellsLogprobs) and engine.tells_logprobs()
        return Pace(seconds, min(replies_for(player, replies), SCORED_AT_ONCE if told else 10**9))
    if isinstance(engine, Tabular) and all(role.reply is ReplyForm.CHOICE for role in player.roles):
        engine.distributions(requests[:1])  # loads it
        begun = time.perf_counter()
        engine.distributions(requests[1:])
        return Pace((time.perf_counter() - begun) / PROBED, 1)
    engine.sample(requests[:1])
    begun = time.perf_counter()
    engine.sample(requests[1:])
    return Pace((time.perf_counter() - begun) / PROBED, replies_for(player, replies))


def _planned(
    task: AuditTask,
    players: Mapping[tuple[str, str], Player],
    paces: Mapping[str, Pace],
    replies: int | None,
) -> Planned:
    """Return a task with its expected seconds and costs."""
    spec = make_game(task.game).spec
    states = len(information_positions(task.game))
    own = [players[name, task.game] for name in dict.fromkeys(task.players)]
    if task.kind in (Kind.TABLE, Kind.EDIT):
        [name] = task.players
        pace = paces[name]
        costs = [table_cost(own[0], replies)]
        members = max(len(ids) for ids in own[0].members)
        seconds = states * pace.seconds * pace.replies * members + BEST_RESPONSE
    else:
        share = 1.0 / len(seatings(spec)[0])
        turns = MATCHES * spec.max_turns
        costs = [match_cost(player, MATCHES * (spec.seats if len(own) == 1 else 1)) for player in own]
        seconds = turns * TURN
        for name in dict.fromkeys(task.players):
            pace = paces[name]
            if pace.replies == 1:  # each position is computed once
                seconds += states * pace.seconds
            else:
                seconds += turns * share * pace.seconds * task.players.count(name)
    return Planned(task, seconds, tuple(cost for cost in costs if cost is not None))
