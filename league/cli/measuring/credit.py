"""``league credit``: every credit rule on the same matches, compared with the playing policy's exact gradient."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from games.common.destinations import picture_to_write
from games.common.errors import UsageError
from league.cli.formatting import estimate_to_json, format_number, format_percent, plain_table
from league.cli.parser import COUNT, PLAYERS, Parser, add_json_option, add_player_options, add_seed_option

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from games.spec import GameSpec
    from league.config.credit import CreditConfig
    from league.lab.credit.accuracy import Accuracy
    from league.lab.credit.gradient_accuracy import RuleAccuracy
    from league.lab.credit.matches import BatchPlan
    from league.lab.credit.rules import RuleVariant
    from league.population.players.player import Player
    from league.population.storage.run_dir import Run
    from league.theory.statistics import Estimate

EXAMPLES = (
    "kuhn_poker",
    "runs/pocket@main-000120 --game kuhn_poker --batch 64 -o credit.png",
    "leduc_poker --rules mars rae:decay=0.9 --json",
    "kuhn_poker --with advantages.py:compute_grpo_outcome_advantage --signature verl",
)
NOTES = PLAYERS
__all__ = ["print_report", "run", "to_json"]
BATCHES, SAMPLED_BATCHES = 16, 2  # with an exact gradient, and with continuations
GROUP = 8  # matches of a start, by default
UNIFORM = "random"  # the player of a game that is named alone
BIASED = 0.1  # a bias that is significantly greater is reported
_MEANING = (
    "cosine: of one batch's gradient with the exact one; 1 is the same direction. bias: what remains of the exact "
    "gradient after the best multiple of the mean over all possible batches is subtracted; 0 is none. noise: of one "
    "batch, in units of that mean. fidelity: cosine of the turns' credit with their exact advantages. variance: of "
    "the credit of "
    "one action at one information state, in squared units of returns. wrong: turns whose credit has the opposite "
    "sign of their value. matches: for a cosine of {enough:g}; – where no number is enough, or it is not known. ± "
    "and brackets: 95% intervals."
)
_MEANING_PARTS = (
    "for a sign: the number of matches after which a step goes uphill in {sure:.0%} of all batches; – where the mean "
    "of all batches is not certainly uphill, so that more matches would not help."
)
_MEANING_SAMPLED = (
    "cosine: of the turns' credit with their values; 1 is in proportion. wrong: turns whose credit has the opposite "
    "sign of a value that is certain. ±: 95% intervals. Bias and noise cannot be distinguished here."
)


def add_arguments(parser: Parser) -> None:
    """Add what the command is given."""
    parser.add_argument("target", metavar="RUN|GAME", help="a run, RUN@SNAPSHOT, or a game, played uniformly at random")
    parser.add_argument("--game", metavar="GAME", help="one of the run's games; with it any PLAYER may be given")
    parser.add_argument(
        "--rules",
        nargs="+",
        default=[],
        metavar="RULE",
        help="only these, as NAME, NAME:KEY=VALUE or NAME@ESTIMATOR (default: all, or none if --with is given)",
    )
    parser.add_argument(
        "--with",
        dest="given",
        metavar="FILE.py:FUNCTION",
        help="measure your own trainer's advantage function, imported and called unchanged",
    )
    parser.add_argument(
        "--signature",
        choices=("verl", "trl", "prime_rl", "league"),
        help="which library's arrays the function of --with takes (default: verl)",
    )
    parser.add_argument("--batch", type=COUNT, default=512, metavar="N", help="matches in a batch (default: 512)")
    parser.add_argument(
        "--learned",
        type=COUNT,
        default=4096,
        metavar="N",
        help="matches that estimators of turn values learn from first (default: 4096)",
    )
    parser.add_argument(
        "--batches",
        type=COUNT,
        metavar="N",
        help="independent batches (default: 16, or 2 for a game too large to enumerate)",
    )
    parser.add_argument(
        "--group", type=COUNT, metavar="N", help="matches of each start (default: the run's, or 8 where it has one)"
    )
    add_seed_option(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="draw a picture: a .png or .svg file")
    add_player_options(parser)
    add_json_option(parser)


def run(arguments: argparse.Namespace) -> CreditReport:
    """Play the batches, measure every rule, and draw a picture if asked to."""
    from league.config.credit import CreditConfig
    from league.lab.credit.foreign import foreign_rule, load_function
    from league.lab.credit.matches import BatchPlan
    from league.population.players.engines import Engines
    from league.population.players.player import resolve
    from league.population.players.settings import PlayerSettings
    from league.population.storage.run_dir import Run, find_run

    picture = picture_to_write(arguments.output, "-o")
    text, signature = arguments.given, arguments.signature
    if text is None and signature is not None:
        raise UsageError(f"--signature {signature} describes the arrays of a function: name the function with --with.")
    given = [] if text is None else [foreign_rule(load_function(text), signature or "verl", text.rpartition(":")[2])]
    folder = find_run(arguments.target.partition("@")[0])
    run = None if folder is None else Run(folder)
    game = arguments.game or (arguments.target if run is None else _only_game(run))
    label = arguments.target if run is not None or arguments.game else UNIFORM
    credit = CreditConfig() if run is None else run.config.credit
    group = arguments.group or _group(run)
    with Engines(PlayerSettings.of(arguments)) as engines:
        player = resolve(label, _spec_of(game, run), engines)
        engines.check_settings([label])
        sampled = reason_to_sample(player)
        batches = arguments.batches or (SAMPLED_BATCHES if sampled else BATCHES)
        plan = BatchPlan(arguments.batch, group, batches, arguments.seed, arguments.learned)
        report = measure(player, credit, plan, arguments.rules, sampled, given)
    if picture is not None:
        _draw(report, picture)
    return report


def measure(
    player: Player,
    credit: CreditConfig,
    plan: BatchPlan,
    rules: Sequence[str],
    sampled: str | None,
    given: Sequence[RuleVariant] = (),
) -> CreditReport:
    """Return the accuracy of rules under a player's policy; by continuations if ``sampled``, which says why.

    ``given`` are rules from outside, in addition to ``rules``. Raises UsageError.
    """
    from league.lab.credit.gradient_accuracy import compare_rules
    from league.lab.credit.influence import influence_by_role
    from league.lab.credit.sampled import compare_by_continuations
    from league.training.monitors.terminal import Terminal

    names = tuple(variant.text for variant in given)
    if sampled:
        with Terminal(stderr=True).status(f"playing matches of {player.spec.alias}, and continuing from their middles"):
            accuracies, left_out = compare_by_continuations(player, credit, plan, rules, given=given)
        return CreditReport(player.label, player.spec, plan, False, accuracies, left_out, sampled, given=names)
    with Terminal(stderr=True).status(f"asking {player.label} at every information state of {player.spec.alias}"):
        tabulated = player.tabulate()
    with Terminal(stderr=True).status(f"playing {plan.batch * plan.batches} matches and crediting their turns"):
        accuracies, left_out = compare_rules(tabulated.table, player.roles, credit, plan, rules, given)
    moved = influence_by_role(tabulated.table, player.roles)
    return CreditReport(
        player.label, player.spec, plan, tabulated.exact, accuracies, left_out, influence=moved, given=names
    )


def reason_to_sample(player: Player) -> str | None:
    """Return why a game cannot be enumerated; None if it can.

    Raises UsageError for a game that can neither be enumerated nor continued from the middle of a match.
    """
    from league.theory.exact.exploitability import exact_form

    try:
        exact_form(player.spec.name)
    except UsageError as error:
        if any(len(members) > 1 for part in (player, *player.team) for members in part.members):
            raise
        return str(error)
    return None


def _spec_of(game: str, run: Run | None) -> GameSpec:
    """Return a game's facts. Raises UsageError for a name that is neither a game nor a run."""
    from games.registry import make_game

    try:
        return make_game(game).spec
    except UsageError as error:
        also = "" if run is not None else " Nor is there such a run: name it by its folder, or by its name in runs/."
        raise UsageError(f"{error}{also}") from None


def _only_game(run: Run) -> str:
    """Return a run's game. Raises UsageError for a run with several."""
    games = list(run.config.games)
    if len(games) > 1:
        raise UsageError(f"{run.path} trains in {', '.join(games)}: name one of them with --game.")
    return games[0]


def _group(run: Run | None) -> int:
    """Return how many matches of a start a run plays, or the default."""
    size = 1 if run is None else run.config.matchmaking.group_size
    return size if size > 1 else GROUP


def _draw(report: CreditReport, path: Path) -> None:
    from league.training.board.figures.credit import CreditRow, save_credit_figure  # matplotlib is slow to import

    rows = [
        CreditRow(", ".join([rule.rule, *same]), rule.overall.cosine, rule.overall.bias, rule.overall.noise)
        for rule, same in ranked(report)
        if rule.overall.cosine is not None
    ]
    title = f"{report.spec.alias}, played by {report.player}: {report.plan.batch} matches a batch"
    save_credit_figure(path, title, rows)


class CreditReport(NamedTuple):
    """The accuracy of each rule's credit in a game, under one player's policy."""

    player: str
    spec: GameSpec
    plan: BatchPlan
    exact_policy: bool  # False: the table was estimated from sampled replies
    rules: list[RuleAccuracy]  # the exact advantage first
    left_out: dict[str, str]  # why, by rule
    sampled: str | None = None  # why rules are compared with continuations; None: with the exact gradient
    influence: dict[str, float] = {}  # nats by role, of those that another seat answers; exact  # noqa: RUF012
    given: tuple[str, ...] = ()  # the rules that are somebody else's functions


def ranked(report: CreditReport) -> list[tuple[RuleAccuracy, list[str]]]:
    """Return the rules, nearest first, each with the names of rules that give the same credit here."""
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
    """Return the report as JSON data. Values that were not computed are null."""
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
    from league.theory.statistics import Estimate

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
        "matches_for_sign": accuracy.sign,
    }


def print_report(report: CreditReport, console: Console) -> None:
    """Print the tables, and their conclusions in words."""
    from league.lab.credit.accuracy import ENOUGH, SURE
    from league.lab.credit.gradient_accuracy import EXACT
    from league.lab.credit.sampled import COUNT as PLAYED_ON
    from league.lab.credit.sampled import TURNS

    plan = report.plan
    console.print(f"Credit in {report.spec.alias}, played by {report.player}", style="bold")
    console.print(f"{plan.batches} batches of {plan.batch} matches in groups of {plan.group} (seed {plan.seed}).")
    if report.sampled:
        console.print(
            f"{report.sampled}\nSo {TURNS} of their turns, no two from one match, were continued {2 * PLAYED_ON} "
            f"times from before and from after them. {EXACT} shows how accurate these estimates themselves are."
        )
    else:
        console.print("Every rule credits the same turns, and its gradient is compared with the exact one.")
        if not report.exact_policy:
            console.print("The policy was estimated from sampled replies; the matches are drawn from that estimate.")
    console.print()
    console.print(_table(report))
    console.print(f"\n{_MEANING_SAMPLED if report.sampled else _MEANING.format(enough=ENOUGH)}\n")
    console.print(_cosines("role", report, {role: role for role in report.rules[0].roles}))
    console.print()
    console.print(_cosines("turn", report, {index: f"turn {index + 1}" for index in report.rules[0].turns}))
    console.print()
    if not report.sampled:
        for rule in (rule for rule in report.rules if rule.rule in report.given):
            console.print(_parts(rule))
            console.print(f"\n{_MEANING_PARTS.format(sure=SURE)}\n")
    for sentence in [*_verdict(report), *_influences(report)]:
        console.print(sentence)


def _table(report: CreditReport) -> Table:
    table = plain_table("rule", "cosine", "bias", "noise", "fidelity", "variance", "wrong", "matches")
    for rule, _ in ranked(report):
        accuracy = rule.overall
        matches = "–" if accuracy.matches is None else f"{accuracy.matches:,}"
        sign = format_percent(accuracy.wrong_sign)
        gradient = _plus_minus(accuracy.cosine), _interval(accuracy.bias), _short(accuracy.noise)
        table.add_row(rule.rule, *gradient, *map(_short, rule.faithful), sign, matches)
    return table


def _parts(rule: RuleAccuracy) -> Table:
    """Return a table of outside credit: everything, and by role and by turn."""
    table = plain_table(rule.rule, "cosine", "bias", "noise", "wrong", "matches", "for a sign")
    turns = {f"turn {index + 1}": accuracy for index, accuracy in rule.turns.items()}
    for part, accuracy in {"all turns": rule.overall, **rule.roles, **turns}.items():
        counts = ["–" if count is None else f"{count:,}" for count in (accuracy.matches, accuracy.sign)]
        gradient = _plus_minus(accuracy.cosine), _interval(accuracy.bias), _short(accuracy.noise)
        table.add_row(part, *gradient, format_percent(accuracy.wrong_sign), *counts)
    return table


def _cosines(what: str, report: CreditReport, columns: dict[Any, str]) -> Table:
    """Return a table of cosines by role or by turn."""
    table = plain_table(f"cosine by {what}", *columns.values())
    for rule, _ in ranked(report):
        parts: dict[Any, Accuracy] = dict(rule.roles if what == "role" else rule.turns)
        table.add_row(rule.rule, *[_short(_mean(parts[key].cosine)) for key in columns])
    return table


def _verdict(report: CreditReport) -> list[str]:
    """Return sentences on the nearest rules, those significantly biased, and those that are equal or left out."""
    from league.lab.credit.gradient_accuracy import EXACT

    order = ranked(report)
    rules = [rule for rule, _ in order if rule.rule != EXACT and rule.overall.cosine is not None]
    sentences = [f"{rule.rule} gives the same credit here as {', '.join(same)}." for rule, same in order if same]
    if plain := [rule for rule in rules if not rule.given_values]:
        sentences.append(f"Nearest to the truth: {_nearest(plain)}")
    if valued := [rule for rule in rules if rule.given_values]:
        names = ", ".join(rule.rule for rule in valued)
        sentences.append(f"With the exact value of every turn, which a critic would have to learn first: {names}.")
    if not report.sampled:
        sentences.append(f"Certainly biased by more than {BIASED:g}: {', '.join(_biased(rules)) or 'none'}.")
    return sentences + [f"{rule} is left out: {reason.rstrip('.')}." for rule, reason in report.left_out.items()]


def _influences(report: CreditReport) -> list[str]:
    """Return a sentence on how much roles' messages move the next seat's choice, where that is known exactly."""
    moved = [f"{role} {amount:.3f}" for role, amount in report.influence.items()]
    return [f"How far a role's action moves the next seat's choice, in nats: {', '.join(moved)}."] if moved else []


def _biased(rules: Sequence[RuleAccuracy]) -> list[str]:
    return [rule.rule for rule in rules if rule.overall.bias and (rule.overall.bias.low or 0.0) > BIASED]


def _nearest(rules: Sequence[RuleAccuracy]) -> str:
    """Return the first of ranked rules, and the others whose intervals reach as far as its own."""
    best, *others = rules
    low = best.overall.cosine and best.overall.cosine.low
    near = [rule.rule for rule in others if low is not None and _high(rule.overall) >= low]
    return f"{best.rule}; not distinguishable from it here: {', '.join(near)}." if near else f"{best.rule}."


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
