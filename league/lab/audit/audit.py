"""The audit of players: their tables and matches by a plan, and all that follows from them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from arena.remote.usage import Usage
from games.common.errors import UsageError
from games.registry import make_game
from league.lab.audit.measures import (
    Control,
    EditEffect,
    Field,
    Forfeits,
    LaterEarlier,
    edit_effect,
    field_of,
    forfeits_of,
    later_and_earlier,
)
from league.lab.audit.plan import GAMES, MATCHES, PLANTED, AuditTask, Kind, Plan, Planned, make_plan, tasks_of
from league.population.evaluation.asking_cost import replies_for
from league.population.evaluation.exploitability_report import ExploitabilityReport, measure
from league.population.evaluation.head_to_head import HeadToHead, compare
from league.population.players.engines import Engines
from league.population.players.player import Player, resolve
from league.population.players.tabulating import TabulatedPolicy
from league.population.storage.run_dir import Run, find_run

CHECKPOINTS = 4  # earlier ones of a run that are audited with its newest, at most
SEED = 0  # of deals and draws, as `league match` has it


class AuditReport(NamedTuple):
    """All that was measured."""

    players: tuple[str, ...]  # as they were named
    lines: tuple[tuple[str, ...], ...]  # checkpoints of one run, oldest first
    plan: Plan
    unfinished: tuple[AuditTask, ...]  # planned, but the minutes were over
    refused: tuple[tuple[AuditTask, str], ...]  # what a player cannot do, and why
    exploitabilities: tuple[ExploitabilityReport, ...]  # by game and player, in the order of the plan
    fields: tuple[Field, ...]
    progress: tuple[LaterEarlier, ...]
    edits: tuple[EditEffect, ...]
    controls: tuple[Control, ...]
    matches: tuple[HeadToHead, ...]
    forfeits: tuple[Forfeits, ...]  # of each player in each game against each opponent
    usage: dict[str, Usage]
    seconds: float


class Audit:
    """One audit: players, a plan, and what it has measured so far.

    Each task is computed as `league exploitability` and `league match` would, bit for bit.
    """

    def __init__(self, names: Sequence[str], engines: Engines, *, minutes: float, replies: int | None = None) -> None:
        """Resolve the players and make the plan. Raises UsageError for a player that is named twice or does not
        exist.
        """
        if len({*names}) < len(names):
            raise UsageError(
                f"One of {', '.join(names)} is named twice. Every player already plays under a second name, to check "
                "that no difference is found where there is none: name each once."
            )
        self.names, self._engines, self._replies = tuple(names), engines, replies
        self._begun = time.monotonic()
        self.lines = tuple(line for line in map(checkpoints_of, names) if len(line) > 1)
        earlier = [name for line in self.lines for name in line if name not in names]
        self._players: dict[tuple[str, str], Player] = {}
        tasks = list(tasks_of(names, list(dict.fromkeys(earlier))))
        for task in tasks:
            for name in task.players:
                self._resolved(name, task.game)
        self.plan = make_plan(tasks, self._players, minutes, replies)
        self._results = _Results()

    def run(self, say: Callable[[str], None] = lambda _: None) -> AuditReport:
        """Carry out the plan, and ``say`` each task before it starts; a task that would start too late is skipped."""
        unfinished = []
        for planned in self.plan.tasks:
            if time.monotonic() - self._begun > self.plan.minutes * 60.0:
                unfinished.append(planned.task)
                continue
            say(str(planned.task))
            self._engines.refresh()
            try:
                self._do(planned)
            except UsageError as error:
                self._results.refused.append((planned.task, str(error)))
        return self._report(tuple(unfinished))

    def _do(self, planned: Planned) -> None:
        task, results = planned.task, self._results
        first = self._players[task.players[0], task.game]
        if task.kind in (Kind.TABLE, Kind.EDIT):
            tabulated = first.tabulate(replies=replies_for(first, self._replies))
            results.tables.setdefault(task.game, {})[task.players[0]] = tabulated
            if task.kind is Kind.TABLE:
                results.exploitabilities.append(measure(first, tabulated))
            return
        if task.kind is Kind.CONTROL:
            second = replace(first, label=f"{first.label} again")
        else:
            second = self._players[task.players[1], task.game]
        result = compare((first, second), MATCHES, SEED)
        if task.kind is Kind.CONTROL:
            results.controls.append(Control(first.label, first.spec, len(result.episodes), result.lead))
        else:
            results.matches.append(result)

    def _report(self, unfinished: tuple[AuditTask, ...]) -> AuditReport:
        results = self._results
        games = [game for game in GAMES if game in results.tables]
        ranked = (*self.names, PLANTED)
        fields = [field_of(make_game(game).spec, results.tables[game], ranked) for game in games]
        known = tuple(one for one in fields if one is not None)
        plain = results.tables.get(GAMES[0], {})
        edits = [
            edit_effect(player, game, plain[player], after)
            for game, tables in results.tables.items()
            if game not in GAMES
            for player, after in tables.items()
            if player in plain
        ]
        return AuditReport(
            players=self.names,
            lines=self.lines,
            plan=self.plan,
            unfinished=unfinished,
            refused=tuple(results.refused),
            exploitabilities=tuple(results.exploitabilities),
            fields=known,
            progress=tuple(step for line in self.lines for one in known for step in later_and_earlier(one, line)),
            edits=tuple(edits),
            controls=tuple(results.controls),
            matches=tuple(results.matches),
            forfeits=tuple(map(forfeits_of, results.matches)),
            usage=self._engines.usage(),
            seconds=time.monotonic() - self._begun,
        )

    def _resolved(self, name: str, game: str) -> Player:
        if (name, game) not in self._players:
            self._players[name, game] = resolve(name, make_game(game).spec, self._engines)
        return self._players[name, game]


@dataclass(slots=True)
class _Results:
    """What the tasks gave so far."""

    tables: dict[str, dict[str, TabulatedPolicy]] = field(default_factory=dict)  # by game and player
    exploitabilities: list[ExploitabilityReport] = field(default_factory=list)
    controls: list[Control] = field(default_factory=list)
    refused: list[tuple[AuditTask, str]] = field(default_factory=list)
    matches: list[HeadToHead] = field(default_factory=list)


def checkpoints_of(name: str) -> tuple[str, ...]:
    """Return a run's checkpoints, oldest first, with the run itself, which is its newest, last.

    There are at most ``CHECKPOINTS`` earlier ones, spread over the run. Players that are not runs, single snapshots,
    and runs with several policies, none of which is earlier than another, have no other checkpoints.
    """
    path = None if "@" in name else find_run(name)
    if path is None:
        return (name,)
    snapshots = Run(path).population.all()
    if len({snapshot.policy for snapshot in snapshots}) > 1:
        return (name,)
    earlier = [f"{name}@{snapshot.id}" for snapshot in snapshots[:-1]]
    if len(earlier) > CHECKPOINTS:
        last = len(earlier) - 1
        earlier = [earlier[round(step * last / (CHECKPOINTS - 1))] for step in range(CHECKPOINTS)]
    return (*earlier, name)


def planted_leads(one: Field) -> bool:
    """Return whether the planted player has the greatest mean margin of a field, which would mean that the field ranks
    luck alone.
    """
    return PLANTED in one.ranked and len(one.ranked) > 1 and one.leader == PLANTED
