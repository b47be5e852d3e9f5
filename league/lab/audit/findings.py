"""What an audit found: sentences for people, in the order of the questions, and one JSON document."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from league.lab.audit.audit import AuditReport, planted_leads
from league.lab.audit.measures import EditEffect, Field, Forfeits
from league.lab.audit.plan import PLANTED, Plan
from league.population.evaluation.exploitability_report import ExploitabilityReport
from league.population.evaluation.head_to_head import HeadToHead
from league.theory.cycles import Cycle
from league.theory.statistics import Estimate

NARROW = 0.005  # of the span of a game's returns: a cycle with a narrower win is on the page, and no finding
RARE = 0.05  # of the differences that null controls find: below it they are not chance
TRACE = 0.001  # of a seat's value that is not spoken of
SHOWN = 3  # cycles of a game among the findings
MOVED = 0.05  # mean total variation from which a strategy counts as moved by an edit


class Finding(NamedTuple):
    """One sentence."""

    text: str
    good: bool | None  # None: neither good nor bad


def findings(report: AuditReport) -> list[Finding]:
    """Return what an audit shows, question by question."""
    return [
        *_exploitable(report),
        *_progress(report),
        *_forfeits(report),
        *_labels(report),
        *_seats(report),
        *_controls(report),
    ]


def _exploitable(report: AuditReport) -> Iterator[Finding]:
    random = {one.spec.name: one for one in report.exploitabilities if one.player == PLANTED}
    for player in report.players:
        own = [one for one in report.exploitabilities if one.player == player and one.spec.name in random]
        if not own or player == PLANTED:
            continue
        below = [one for one in own if bounds(one).high < random[one.spec.name].exploitability]  # type: ignore[operator]
        where = ", ".join(f"{number(one.exploitability)} in {one.spec.alias}" for one in own)
        text = f"{player} loses to a best response, a match: {where}. That is less than random play loses in "
        yield Finding(f"{text}{len(below)} of {len(own)} games.", len(below) == len(own))


def _progress(report: AuditReport) -> Iterator[Finding]:
    for line in report.lines:
        steps = [step for step in report.progress if step.later in line and step.earlier in line]
        for game in dict.fromkeys(step.game for step in steps):
            newest = [step for step in steps if step.game == game and step.later == line[-1]]
            lost = [step.earlier for step in newest if step.verdict == "loses to"]
            beaten = sum(step.verdict == "beats" for step in newest)
            text = f"In {game} {line[-1]} beats {beaten} of {len(newest)} earlier checkpoints"
            yield Finding(f"{text}, and loses to {', '.join(lost)}." if lost else f"{text}.", not lost)
    round_about = False
    for one in report.fields:
        clear = [cycle for cycle in one.cycles if is_clear(one, cycle)]
        round_about |= bool(clear)
        for cycle in clear[:SHOWN]:
            text = (
                f"Players form a cycle in {one.spec.alias}: {cycle}; the narrowest win is {number(cycle.margin)} a "
                "match"
            )
            yield Finding(f"{text}.", False)
    if report.fields and not round_about:
        yield Finding("There is no cycle worth mentioning: in each game the players can be ranked.", True)


def _forfeits(report: AuditReport) -> Iterator[Finding]:
    failing = [one for one in report.forfeits if one.forfeited]
    for one in failing:
        role = max(one.by_role, key=lambda name: one.by_role[name])
        turn = max(one.by_turn, key=lambda number: one.by_turn[number])
        text = f"{one.player} forfeits {one.forfeited} of {one.matches} matches of {one.spec.alias} with "
        text += f"{one.opponent}, most as {role} and at its turn {turn}. Its lead is {interval(one.lead)} a match"
        if one.lead_unforfeited is not None:
            text += f", and {interval(one.lead_unforfeited)} in the {one.unforfeited} matches that nobody forfeits"
        yield Finding(f"{text}.", False)
    if report.forfeits and not failing:
        yield Finding("Nobody forfeits a match, so no result is due to rule-breaking.", True)


def _labels(report: AuditReport) -> Iterator[Finding]:
    for player in report.players:
        own = [one for one in report.edits if one.player == player]
        if not own:
            continue
        moved = ", ".join(f"{number(one.moved)} in {one.game}" for one in own)
        worst = max(own, key=lambda one: one.after.mean)
        text = f"Other words and cards move the strategy of {player} by {moved}; its exploitability goes from "
        text += f"{number(worst.before.mean)} to at most {number(worst.after.mean)}"
        by_label = any(map(reads_labels, own))
        yield Finding(f"{text}: its play {'depends' if by_label else 'does not depend'} on labels.", not by_label)


def _seats(report: AuditReport) -> Iterator[Finding]:
    for player in report.players:
        own = [one for one in report.exploitabilities if one.player == player and one.value is not None]
        off = [(one.values[0] - (one.value or 0.0), one) for one in own]
        parts = [f"{number(gap, True)} in {one.spec.alias}" for gap, one in off if abs(gap) >= TRACE]
        if parts:
            text = f"Against itself {player} gets in the first seat, compared with perfect play: "
            yield Finding(f"{text}{', '.join(parts)}.", None)
        elif own:
            yield Finding(f"Against itself {player} gets in the first seat what perfect play gets there.", None)


def _controls(report: AuditReport) -> Iterator[Finding]:
    differing = [one for one in report.controls if one.differs]
    chance = chance_of(len(differing), len(report.controls))
    if differing:
        who = ", ".join(f"{one.player} in {one.spec.alias} by {interval(one.lead)}" for one in differing)
        text = f"Null control: in {len(differing)} of {len(report.controls)} a player seems to differ from itself "
        text += f"({who}). At 95 %, this many or more arise by chance with probability {chance:.2f}"
        yield Finding(f"{text}{': trust no result here' if chance < RARE else ''}.", chance >= RARE)
    elif report.controls:
        yield Finding("Null control: no player differs from itself under another name.", True)
    leading = [met for met in report.fields if planted_leads(met)]
    for met in leading:
        text = (
            f"The planted player, {PLANTED}, leads in {met.spec.alias}: nobody plays better than chance there, and no "
        )
        yield Finding(f"{text}order of the others is one of skill.", False)
    for forfeit in report.forfeits:
        high = forfeit.lead.high
        if forfeit.opponent == PLANTED and high is not None and high < 0.0 and forfeit.forfeited:
            text = f"{PLANTED} beats {forfeit.player} in {forfeit.spec.alias}, which forfeits there: it loses on form."
            yield Finding(text, False)
    if report.fields and not leading:
        yield Finding(f"The planted player, {PLANTED}, which never errs and has no skill, leads nowhere.", True)


def chance_of(found: int, controls: int) -> float:
    """Return the probability that this many controls or more find a difference at 95 % where there is none."""
    numbers = range(found, controls + 1)
    return math.fsum(math.comb(controls, number) * 0.05**number * 0.95 ** (controls - number) for number in numbers)


def is_clear(met: Field, cycle: Cycle) -> bool:
    """Return whether the narrowest win of a cycle is more than a trace of what the game can pay."""
    return cycle.margin > NARROW * (met.spec.max_return - met.spec.min_return)


def reads_labels(effect: EditEffect) -> bool:
    """Return whether an edit moves a strategy by more than noise and more than a negligible amount."""
    return effect.moved - effect.noise > MOVED


def bounds(report: ExploitabilityReport) -> Estimate:
    """Return an exploitability with its interval, which has no width where it is exact."""
    if report.sampled is not None:
        return Estimate(report.exploitability, *report.sampled.mean[1:])
    return Estimate(report.exploitability, report.exploitability, report.exploitability)


def number(value: float, signed: bool = False) -> str:
    """Return a number with three decimals and a real minus sign."""
    value = round(value, 3) + 0.0  # no negative zero
    return (f"{value:+.3f}" if signed else f"{value:.3f}").replace("-", "−")


def interval(estimate: Estimate) -> str:
    """Return a signed mean with its 95 % interval."""
    if estimate.low is None or estimate.high is None:
        return number(estimate.mean, True)
    return f"{number(estimate.mean, True)} ({number(estimate.low, True)} to {number(estimate.high, True)})"


def document(report: AuditReport) -> dict[str, Any]:
    """Return the audit as JSON data. Values that were not computed are null."""
    return {
        "players": list(report.players),
        "seconds": report.seconds,
        "plan": plan_document(report.plan)
        | {
            "unfinished": [str(task) for task in report.unfinished],
            "refused": {str(task): reason for task, reason in report.refused},
        },
        "usage": {player: usage._asdict() for player, usage in report.usage.items()},
        "findings": [finding._asdict() for finding in findings(report)],
        "exploitability": [_exploitability(one) for one in report.exploitabilities],
        "fields": [_field(one) for one in report.fields],
        "checkpoints": [list(line) for line in report.lines],
        "progress": [
            step._asdict() | {"margin": step.margin._asdict(), "verdict": step.verdict} for step in report.progress
        ],
        "labels": [
            effect._asdict() | {"before": effect.before._asdict(), "after": effect.after._asdict()}
            for effect in report.edits
        ],
        "matches": [_match(one) for one in report.matches],
        "forfeits": [_forfeit(one) for one in report.forfeits],
        "null_control": [
            {"player": one.player, "game": one.spec.name, "lead": one.lead._asdict(), "differs": one.differs}
            for one in report.controls
        ],
        "planted": {one.spec.name: planted_leads(one) for one in report.fields},
    }


def plan_document(plan: Plan) -> dict[str, Any]:
    """Return a plan as JSON data."""
    return {
        "minutes": plan.minutes,
        "seconds": plan.seconds,
        "tasks": [str(planned.task) for planned in plan.tasks],
        "left_out": [str(planned.task) for planned in plan.left_out],
        "costs": [cost._asdict() for cost in plan.costs()],
    }


def _exploitability(one: ExploitabilityReport) -> dict[str, Any]:
    sampled = one.sampled
    return {
        "game": one.spec.name,
        "player": one.player,
        "exploitability": one.exploitability,
        "source": str(one.source),
        "replies": one.replies,
        "illegal_rate": one.illegal_rate,
        "interval": None if sampled is None else list(sampled.mean[1:]),
        "by_role": {
            role: {
                "value": one.values[seat],
                "best_response": one.best_responses[seat],
                "gain": one.best_responses[seat] - one.values[seat],
                "interval": None if sampled is None else list(sampled.by_seat[seat][1:]),
            }
            for seat, role in enumerate(one.roles)
        },
        "game_value": one.value,
    }


def _field(one: Field) -> dict[str, Any]:
    return {
        "game": one.spec.name,
        "players": list(one.players),
        "margin": one.margin.tolist(),
        "error": one.error.tolist(),
        "leader": one.leader,
        "cycles": [{"players": list(cycle.players), "margin": cycle.margin} for cycle in one.cycles],
    }


def _match(one: HeadToHead) -> dict[str, Any]:
    return {
        "game": one.spec.name,
        "players": list(one.players),
        "matches": len(one.episodes),
        "lead_a": one.lead._asdict(),
        "score_a": one.score._asdict(),
        "forfeits": one.forfeits,
        "by_role": {
            role: {"return": result.returns._asdict(), "score": result.score._asdict()}
            for role, result in one.by_role.items()
        },
    }


def _forfeit(one: Forfeits) -> dict[str, Any]:
    return one._asdict() | {
        "spec": one.spec.name,
        "by_turn": {str(turn): number for turn, number in one.by_turn.items()},
        "lead": one.lead._asdict(),
        "lead_unforfeited": None if one.lead_unforfeited is None else one.lead_unforfeited._asdict(),
    }
