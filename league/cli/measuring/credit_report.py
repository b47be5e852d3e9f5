"""What ``league credit`` found, as tables and sentences, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from games.spec import GameSpec
from league.cli.formatting import estimate_to_json, format_number, format_percent, plain_table
from league.lab.credit.accuracy import ENOUGH, Accuracy
from league.lab.credit.gradient_accuracy import EXACT, RuleAccuracy
from league.lab.credit.matches import BatchPlan
from league.lab.credit.sampled import COUNT, TURNS
from league.theory.statistics import Estimate

BIASED = 0.1  # a bias that is surely greater is told
_MEANING = (
    "cosine: of one batch's gradient with the exact one; 1 is the same direction. bias: what is left of the exact "
    "gradient when the mean of all possible batches goes as far that way as it can; 0 is none. noise: of one batch, in "
    "units of that mean. fidelity: cosine of the turns' credit with their exact advantages. variance: of the credit of "
    "one action at one information state, in squared units of returns. wrong: turns whose credit says the opposite of "
    f"what they were worth. matches: for a cosine of {ENOUGH:g}; – where no number is enough, or it is not known. ± "
    "and brackets: 95% intervals."
)
_MEANING_SAMPLED = (
    "cosine: of the turns' credit with what they were worth; 1 is in proportion. wrong: turns whose credit says the "
    "opposite of what they were surely worth. ±: 95% intervals. Bias and noise are not told apart here."
)


class CreditReport(NamedTuple):
    """What each rule's credit is worth in a game, under one player's policy."""

    player: str
    spec: GameSpec
    plan: BatchPlan
    exact_policy: bool  # False: the table was estimated from sampled replies
    rules: list[RuleAccuracy]  # the exact advantage first
    left_out: dict[str, str]  # why, by rule
    sampled: str | None = None  # why rules are compared with continuations; None: with the exact gradient
    influence: dict[str, float] = {}  # nats by role, of those that another seat answers; exact  # noqa: RUF012


def ranked(report: CreditReport) -> list[tuple[RuleAccuracy, list[str]]]:
    """Return the rules, nearest first, each with the names of those that give the same credit here."""
    firsts: dict[Accuracy, RuleAccuracy] = {}
    same: dict[Accuracy, list[str]] = {}
    for rule in report.rules:
        if rule.overall in firsts:
            same[rule.overall].append(rule.rule)
        else:
            firsts[rule.overall], same[rule.overall] = rule, []
    order = sorted(firsts, key=lambda accuracy: accuracy.cosine.mean if accuracy.cosine else -2.0, reverse=True)
    return [(firsts[accuracy], same[accuracy]) for accuracy in order]


def to_json(report: CreditReport) -> dict[str, Any]:
    """Return the report as JSON data. What was not computed is null."""
    return {
        "game": report.spec.name,
        "player": report.player,
        "reference": "continuations" if report.sampled else "exact",
        "exact_policy": report.exact_policy,
        **report.plan._asdict(),
        "influence": report.influence,
        "rules": [_rule_to_json(rule) for rule in report.rules],
        "left_out": report.left_out,
    }


def _rule_to_json(rule: RuleAccuracy) -> dict[str, Any]:
    return {
        "rule": rule.rule,
        "given_values": rule.given_values,
        **rule.faithful._asdict(),
        **_accuracy_to_json(rule.overall),
        "roles": {role: _accuracy_to_json(accuracy) for role, accuracy in rule.roles.items()},
        "turns": [{"turn": index + 1, **_accuracy_to_json(accuracy)} for index, accuracy in rule.turns.items()],
    }


def _accuracy_to_json(accuracy: Accuracy) -> dict[str, Any]:
    unknown = Estimate(float("nan"), None, None)
    estimates = {
        **estimate_to_json("cosine", accuracy.cosine or unknown),
        **estimate_to_json("bias", accuracy.bias or unknown),
    }
    return {
        **{key: None if value != value else value for key, value in estimates.items()},
        "noise": accuracy.noise,
        "wrong_sign": accuracy.wrong_sign,
        "matches_needed": accuracy.matches,
    }


def print_report(report: CreditReport, console: Console) -> None:
    """Print the tables, and in words what they say."""
    plan = report.plan
    console.print(f"Credit in {report.spec.alias}, played by {report.player}", style="bold")
    console.print(f"{plan.batches} batches of {plan.batch} matches in groups of {plan.group} (seed {plan.seed}).")
    if report.sampled:
        console.print(
            f"{report.sampled}\nSo {TURNS} of their turns, no two of one match, were played on {2 * COUNT} times from "
            f"before and from after them. {EXACT} is how well these estimates know themselves."
        )
    else:
        console.print("Every rule credits the same turns, and its gradient is compared with the exact one.")
        if not report.exact_policy:
            console.print("The policy was estimated from sampled replies; the matches are drawn from that estimate.")
    console.print()
    console.print(_table(report))
    console.print(f"\n{_MEANING_SAMPLED if report.sampled else _MEANING}\n")
    console.print(_cosines("role", report, {role: role for role in report.rules[0].roles}))
    console.print()
    console.print(_cosines("turn", report, {index: f"turn {index + 1}" for index in report.rules[0].turns}))
    console.print()
    for sentence in [*_verdict(report), *_influences(report)]:
        console.print(sentence)


def _table(report: CreditReport) -> Table:
    table = plain_table("rule", "cosine", "bias", "noise", "fidelity", "variance", "wrong", "matches")
    for rule, _ in ranked(report):
        found = rule.overall
        matches = "–" if found.matches is None else f"{found.matches:,}"
        sign = format_percent(found.wrong_sign)
        gradient = _plus_minus(found.cosine), _interval(found.bias), _short(found.noise)
        table.add_row(rule.rule, *gradient, *map(_short, rule.faithful), sign, matches)
    return table


def _cosines(what: str, report: CreditReport, columns: dict[Any, str]) -> Table:
    """Return a table of cosines by role or by turn."""
    table = plain_table(f"cosine by {what}", *columns.values())
    for rule, _ in ranked(report):
        parts: dict[Any, Accuracy] = dict(rule.roles if what == "role" else rule.turns)
        table.add_row(rule.rule, *[_short(_mean(parts[key].cosine)) for key in columns])
    return table


def _verdict(report: CreditReport) -> list[str]:
    """Return in sentences which rules come nearest, which are surely biased, and which are the same or left out."""
    order = ranked(report)
    rules = [rule for rule, _ in order if rule.rule != EXACT and rule.overall.cosine is not None]
    sentences = [f"{rule.rule} gives the same credit here as {', '.join(same)}." for rule, same in order if same]
    if plain := [rule for rule in rules if not rule.given_values]:
        sentences.append(f"Nearest to the truth: {_nearest(plain)}")
    if valued := [rule for rule in rules if rule.given_values]:
        names = ", ".join(rule.rule for rule in valued)
        sentences.append(f"With the exact value of every turn, which a critic would have to learn first: {names}.")
    if not report.sampled:
        sentences.append(f"Surely biased by more than {BIASED:g}: {', '.join(_biased(rules)) or 'none'}.")
    return sentences + [f"{rule} is left out: {reason.rstrip('.')}." for rule, reason in report.left_out.items()]


def _influences(report: CreditReport) -> list[str]:
    """Return in a sentence by how much what roles say moves the next seat's choice, where that is known exactly."""
    moved = [f"{role} {amount:.3f}" for role, amount in report.influence.items()]
    return [f"What a role does moves the next seat's choice by so many nats: {', '.join(moved)}."] if moved else []


def _biased(rules: Sequence[RuleAccuracy]) -> list[str]:
    return [rule.rule for rule in rules if rule.overall.bias and (rule.overall.bias.low or 0.0) > BIASED]


def _nearest(rules: Sequence[RuleAccuracy]) -> str:
    """Return the first of ranked rules, and the others whose intervals reach as far as its own."""
    best, *others = rules
    low = best.overall.cosine and best.overall.cosine.low
    near = [rule.rule for rule in others if low is not None and _high(rule.overall) >= low]
    return f"{best.rule}; not to be told from it here: {', '.join(near)}." if near else f"{best.rule}."


def _high(accuracy: Accuracy) -> float:
    """Return the upper end of a cosine's interval; where there is none, the cosine."""
    assert accuracy.cosine is not None
    return accuracy.cosine.mean if accuracy.cosine.high is None else accuracy.cosine.high


def _short(value: float | None) -> str:
    return format_number(None) if value is None else f"{value:.2f}".replace("-", "−")


def _plus_minus(estimate: Estimate | None) -> str:
    if estimate is None or estimate.high is None:
        return _short(_mean(estimate))
    return f"{_short(estimate.mean)} ±{_short(estimate.high - estimate.mean)}"


def _interval(estimate: Estimate | None) -> str:
    if estimate is None or estimate.low is None or estimate.high is None:
        return _short(_mean(estimate))
    return f"{_short(estimate.mean)} ({_short(estimate.low)}–{_short(estimate.high)})"


def _mean(estimate: Estimate | None) -> float | None:
    return None if estimate is None else estimate.mean
