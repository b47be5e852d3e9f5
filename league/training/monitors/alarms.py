"""Alarms: early warnings of a policy that is going wrong. They read a finished iteration and change nothing.

Each policy in a role is judged separately: another that plays the role, such as an exploiter, has other returns and
other words. The alarms are in files by subject: ``history_alarms``, ``strategy_alarms``, ``reply_alarms`` and
``reasoning``. This file has their family, keeps their state and decides which of them ring.

The configuration may import it, since its table ``[alarms]`` has the settings of all; so it imports nothing of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from games.common.registry import Registry
from league.training.monitors.alarm import AlarmRule, Kept, Ledger, Readings, Watched, Win
from league.training.monitors.history_alarms import (
    COLD_START,
    DRIFT,
    DROPPED_BATCH,
    ECHO_TRAP,
    ENTROPY,
    LANGUAGE,
    REASONING,
    SPIKE,
)
from league.training.monitors.reasoning import HACK, MISMATCH
from league.training.monitors.reply_alarms import ILLEGAL, SILENT
from league.training.monitors.strategy_alarms import COLLAPSE, CYCLE, SIGNAL
from learners.keys import split_names
from learners.trajectories import Trajectory

if TYPE_CHECKING:
    from league.config.context import RunContext

State = dict[str, Any]

ALARMS: Registry[AlarmRule] = Registry(
    "alarms",
    "alarm",
    AlarmRule,
    "plugins",
    {
        "drift": DRIFT,
        "reasoning": REASONING,
        "echo_trap": ECHO_TRAP,
        "entropy": ENTROPY,
        "language": LANGUAGE,
        "cold_start": COLD_START,
        "dropped_batch": DROPPED_BATCH,
        "spike": SPIKE,
        "signal": SIGNAL,
        "collapse": COLLAPSE,
        "illegal": ILLEGAL,
        "silent": SILENT,
        "mismatch": MISMATCH,
        "hack": HACK,
        "cycle": CYCLE,
    },
    reserved=("warmup", "stop", "sensitivity"),
    flat="all",
)
register = ALARMS.register


class Alarm(NamedTuple):
    """An alarm that rings."""

    name: str  # of the family "alarms"
    subject: str  # "game/role", with the policy in brackets if it is not the role's own; the policy, or the game
    message: str  # what was measured, and what is normal
    since: int  # the iteration since which it rings without a pause

    def __str__(self) -> str:
        return f"Alarm since iteration {self.since}, {self.name} of {self.subject}: {self.message}"


def check_alarms(
    context: RunContext,
    state: State,
    iteration: int,
    trajectories: Sequence[Trajectory],
    advantages: Sequence[Sequence[float]],
    metrics: Mapping[str, float],
    wins: Mapping[str, Sequence[Win]] = {},
) -> tuple[list[Alarm], dict[str, float], State]:
    """Return the alarms that ring, a metric ``alarms/NAME`` (0 or 1) for each that could be judged, and the new state.

    ``advantages`` hold one number a turn, ``metrics`` the updates' ``POLICY/entropy`` and, where a snapshot was
    measured, ``POLICY/language_kl``; ``wins`` are the cycles of the snapshots of each game where they were compared.
    ``state`` is plain JSON data, empty at first.
    """
    learns = "here" if context.config.trainer.learns_here else "elsewhere"
    watched = Watched(context.roles, context.config.alarms, trajectories, advantages, metrics, wins, learns)
    verdicts: list[tuple[str, str, str]] = []  # subject, name, message
    new_state, readings_of = State(), dict[Ledger, Readings]()
    for name, rule in ALARMS.loaded().items():
        ledger = rule.ledger
        if ledger not in readings_of:
            readings_of[ledger], memory = ledger.read(watched, state.get(ledger.name, {}))
            new_state |= {ledger.name: memory} if ledger.name else {}
        configured = rule.settings.model_fields.keys() <= type(watched.settings).model_fields.keys()
        settings = watched.settings if configured else rule.settings()  # of one registered after the run was configured
        for subject, reading in readings_of[ledger].items():
            message = rule.make(reading, settings)
            verdicts += [] if message is None else [(subject, name, message)]
    ringing = _ringing([Alarm(*alarm) for alarm in state.get("ringing", [])], verdicts, iteration)
    measured = {f"alarms/{name}": 0.0 for _, name, _ in verdicts} | {f"alarms/{alarm.name}": 1.0 for alarm in ringing}
    return ringing, measured, new_state | {"ringing": [list(alarm) for alarm in ringing]}


def forget_alarms(state: State, policy: str) -> State:
    """Return the state without what it holds about a policy, whose weights are reset; its alarms stop ringing."""
    ledgers: dict[str, Kept] = {name: memory for name, memory in state.items() if name != "ringing"}
    forgotten = [key for key in ledgers.get("roles", {}) if split_names(key)[-1] == policy]
    subjects = {ledgers["roles"][key].get("subject") for key in forgotten} | {policy}
    remaining = {
        name: {key: reading for key, reading in memory.items() if split_names(key)[-1] != policy}
        for name, memory in ledgers.items()
    }
    return remaining | {"ringing": [alarm for alarm in state.get("ringing", []) if alarm[1] not in subjects]}


def _ringing(before: Sequence[Alarm], verdicts: Sequence[tuple[str, str, str]], iteration: int) -> list[Alarm]:
    """Return the alarms that ring now. One that lasts and was not judged, as its game was not due, keeps ringing."""
    since = {(alarm.subject, alarm.name): alarm.since for alarm in before}
    judged = {(subject, name) for subject, name, _ in verdicts}
    brief = {name for name, rule in ALARMS.loaded().items() if not rule.lasts}
    not_judged = [a for a in before if (a.subject, a.name) not in judged and a.name not in brief]
    ringing = [
        Alarm(name, subject, message, since.get((subject, name), iteration))
        for subject, name, message in verdicts
        if message
    ]
    return sorted(not_judged + ringing, key=lambda alarm: (alarm.since, alarm.name, alarm.subject))
