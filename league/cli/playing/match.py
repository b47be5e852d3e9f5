"""``league match``: two players against each other, every deal in every seating."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from games.common.destinations import file_to_write
from games.common.errors import UsageError
from league.cli.formatting import (
    estimate_to_json,
    format_interval,
    format_number,
    format_percent,
    format_transcript,
    match_progress,
    print_usage,
)
from league.cli.parser import (
    COUNT,
    PLAYERS,
    Parser,
    add_game_option,
    add_json_option,
    add_player_options,
    add_seed_option,
    add_until_options,
)
from league.cli.playing.words_report import print_words, words_to_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from arena.remote.usage import Usage
    from league.lab.comparisons.until_decided import Until
    from league.lab.comparisons.words import WordsReport
    from league.population.evaluation.head_to_head import Decided, HeadToHead, JudgeResult
    from league.population.players.player import Player
    from league.theory.statistics import Estimate

EXAMPLES = (
    "runs/pocket random --game kuhn_poker",
    "runs/pocket@mixture equilibrium --game kuhn_poker --matches 4000 --save matches.jsonl",
    "runs/pocket@main-000120 runs/pocket --game tic_tac_toe --until 0.95 --margin 0.02",
)
NOTES = PLAYERS
MATCHES = 400  # by default


def add_arguments(parser: Parser) -> None:
    """Add what the command is given."""
    parser.add_argument("players", nargs=2, metavar="PLAYER")
    add_game_option(parser)
    parser.add_argument("--matches", type=COUNT, metavar="N", help="at least this many (default: 400)")
    add_until_options(parser, most="20000")
    parser.add_argument(
        "--seatings", type=COUNT, metavar="N", help="play only the first N seatings of each deal (default: all)"
    )
    add_seed_option(parser)
    parser.add_argument("--save", metavar="FILE", help="write every match to FILE, one JSON line each")
    parser.add_argument("--transcripts", type=COUNT, metavar="N", help="show N matches (default: 1)")
    parser.add_argument(
        "--beliefs", action="store_true", help="ask seats the probes of the game's card; play does not change"
    )
    parser.add_argument(
        "--words",
        action="store_true",
        help="of free replies: how far the act moves when the words before it are cut, left out, permuted or replaced",
    )
    add_player_options(parser)
    add_json_option(parser)


class MatchReport(NamedTuple):
    """The result of the matches, and the usage of players behind servers."""

    result: HeadToHead
    usage: dict[str, Usage]  # by player
    file: Path | None = None  # to keep the matches in
    transcripts: int = 1  # how many matches to show
    words: tuple[WordsReport, ...] | None = None  # of the players that write any; None: not asked for


def run(arguments: argparse.Namespace) -> MatchReport:
    """Play the matches."""
    from games.registry import make_game
    from league.lab.comparisons.until_decided import compare_until
    from league.lab.comparisons.words import words_of
    from league.population.evaluation.head_to_head import compare, schedule
    from league.population.players.engines import Engines
    from league.population.players.player import resolve, with_probes
    from league.population.players.settings import PlayerSettings

    spec, until = make_game(arguments.game).spec, _until(arguments)
    if arguments.seatings is not None and spec.seats == 1:
        raise UsageError(
            f"--seatings chooses who sits where, but in {spec.alias} each player plays alone: leave it out."
        )
    if until is not None:
        until.check(spec)
    file = None if arguments.save is None else file_to_write(arguments.save, "--save")
    with Engines(PlayerSettings.of(arguments)) as engines:
        first, second = (resolve(text, spec, engines) for text in arguments.players)
        if arguments.beliefs:
            first, second = with_probes(first), with_probes(second)
        engines.check_settings(arguments.players)
        if arguments.words:
            _check_words(first, second)
        matches = until.at_most if until else arguments.matches or MATCHES
        total = len(schedule((first, second), matches, arguments.seed, arguments.seatings))
        with match_progress() as progress:
            task = progress.add_task(f"playing {spec.alias}{', at most' if until else ''}", total=total)
            how = (arguments.seed, lambda _: progress.advance(task))
            players, most = (first, second), arguments.seatings
            result = compare_until(players, until, *how) if until else compare(players, matches, *how, most)
        words = words_of(players, result) if arguments.words else None
        return MatchReport(result, engines.usage(), file, arguments.transcripts or 1, words)


def _check_words(first: Player, second: Player) -> None:
    """Raise UsageError if neither player has words before its acts that could be changed."""
    from league.lab.comparisons.words import check_speaks

    reasons = list(dict.fromkeys(map(check_speaks, (first, second))))
    if all(reasons):
        raise UsageError(f"--words: {' '.join(reasons)}")


def _until(arguments: argparse.Namespace) -> Until | None:
    """Return when to stop, from the options; None: after a fixed number of matches."""
    from league.lab.comparisons.until_decided import AT_MOST, Until

    if arguments.until is None:
        for option in ("margin", "at_most"):
            if getattr(arguments, option) is not None:
                raise UsageError(
                    f"--{option.replace('_', '-')} limits --until: give that too, for example --until 0.95."
                )
        return None
    if arguments.seatings is not None:
        raise UsageError(
            "--until decides by whole deals, but --seatings leaves out some of their seatings: give only one of them."
        )
    if arguments.matches is not None:
        raise UsageError(
            "--matches fixes the number of matches, but --until stops when it is decided: give only one of them."
        )
    return Until(arguments.until, arguments.margin, AT_MOST if arguments.at_most is None else arguments.at_most)


def keep(report: MatchReport) -> None:
    """Write the matches to the file of ``--save``."""
    from arena.replays import save_episodes

    if report.file is not None:
        save_episodes(report.file, report.result.episodes)


def to_json(report: MatchReport) -> dict[str, Any]:
    """Return the report as JSON data. Values that were not computed are null."""
    from league.population.evaluation.head_to_head import A, B
    from league.population.evaluation.welfare import common_interest

    result = report.result
    return {
        "game": result.spec.name,
        "players": list(result.players),
        "matches": len(result.episodes),
        "deals": result.matches[-1].deal + 1,
        "seed": result.seed,
        **estimate_to_json("score_a", result.score),
        **estimate_to_json("return_a", result.returns[A]),
        **estimate_to_json("return_b", result.returns[B]),
        **estimate_to_json("lead_a", result.lead),
        "by_role": {
            name: {
                **estimate_to_json("score", role.score),
                **estimate_to_json("return", role.returns),
                "matches": role.matches,
            }
            for name, role in result.by_role.items()
        },
        "illegal_rate": result.illegal_rates[A],
        "illegal_rate_b": result.illegal_rates[B],
        "forfeits": result.forfeits,
        "judges": {name: _judge_to_json(judge) for name, judge in zip("ab", result.judges, strict=True)},
        "cooperative": common_interest(result.spec),
        "optimum": result.spec.optimum,
        "share_of_optimum": result.share_of_optimum,
        "decision": None if result.decision is None else _decision_to_json(result.decision),
        "words": None if report.words is None else [words_to_json(words) for words in report.words],
        "beliefs": [[belief._asdict() for belief in episode.beliefs] for episode in result.episodes],
        "transcript": format_transcript(result.episodes[0], _seat_labels(result, 0)),
        "transcripts": [
            format_transcript(episode, _seat_labels(result, index))
            for index, episode in enumerate(result.episodes[: report.transcripts])
        ],
        "usage": {player: usage._asdict() for player, usage in report.usage.items()},
    }


def _decision_to_json(decision: Decided) -> dict[str, Any]:
    """Return who is stronger ("a", "b", "level", "open"), and the lead with its interval at that confidence."""
    return {
        "winner": str(decision.winner),
        "confidence": decision.confidence,
        "margin": decision.margin,
        **estimate_to_json("lead_a", decision.lead),
    }


def _judge_to_json(judge: JudgeResult | None) -> dict[str, Any] | None:
    if judge is None:
        return None
    bias = judge.position_bias
    return {
        **estimate_to_json("agreement", judge.agreement),
        **({"position_bias": None} if bias is None else estimate_to_json("position_bias", bias)),
        "matches": judge.matches,
    }


def print_report(report: MatchReport, console: Console) -> None:
    """Print who is stronger, the results by role, and one of the matches."""
    from league.population.evaluation.head_to_head import seatings
    from league.population.evaluation.welfare import common_interest

    result = report.result
    a, b = result.players
    played, deals = len({match.seating for match in result.matches}), result.matches[-1].deal + 1
    of_all = f"all {played}" if played == len(seatings(result.spec)) else f"{played} of {len(seatings(result.spec))}"
    together = common_interest(result.spec) and result.spec.seats > 1
    console.print(f"{result.spec.alias}: {a} {'with' if together else 'against'} {b}", style="bold")
    console.print(
        f"{len(result.episodes)} matches: {deals} deals, each played in {of_all} seatings (seed {result.seed})."
    )
    console.print()
    if result.decision is not None:
        _print_decision(result, result.decision, console)
    elif common_interest(result.spec):
        _print_cooperative(result, console)
    else:
        _print_verdict(result, console)
    console.print()
    console.print(_role_table(result))
    rates = [f"{name} {format_percent(rate)}" for name, rate in zip(result.players, result.illegal_rates, strict=True)]
    console.print(f"\nIllegal replies: {', '.join(rates)}. Matches that ended by forfeit: {result.forfeits}.")
    _print_judges(result, console)
    for words in report.words or ():
        print_words(words, console)
    for index, episode in enumerate(result.episodes[: report.transcripts]):
        console.print("\nOne of the matches:" if report.transcripts == 1 else f"\nMatch {index}:", style="bold")
        console.print("\n".join(format_transcript(episode, _seat_labels(result, index))), markup=False)
    print_usage(report.usage, console)


def _print_judges(result: HeadToHead, console: Console) -> None:
    """Print how well each player judges, if there is a judge and the truth is known."""
    for name, judge in zip(result.players, result.judges, strict=True):
        if judge is not None:
            line = f"{name} as the judge agrees with the truth in {format_interval(judge.agreement)} of its verdicts"
            if judge.position_bias is not None:
                line += (
                    f"; its bias towards whoever is shown first is {format_interval(judge.position_bias, signed=True)}"
                )
            console.print(f"{line}.")


def _print_verdict(result: HeadToHead, console: Console) -> None:
    """Print which player the matches show to be stronger, if any."""
    from league.population.evaluation.head_to_head import A

    a, b = result.players
    low, high = result.lead.low, result.lead.high
    if low is None or high is None:
        verdict = f"One deal cannot show who is stronger, {a} or {b}: play more matches."
    elif low > 0:
        verdict = f"{a} is stronger than {b}."
    elif high < 0:
        verdict = f"{a} is weaker than {b}."
    else:
        verdict = f"These matches do not show who is stronger, {a} or {b}."
    console.print(verdict)
    console.print(f"{a}'s mean return is {format_interval(result.returns[A], signed=True)} a match.")
    console.print(f"{a}'s score is {format_interval(result.score)}, where a win counts 1, a draw ½ and a loss 0.")


def _print_decision(result: HeadToHead, decision: Decided, console: Console) -> None:
    """Print the decision and the number of matches it took, or that it is undecided after the most that were
    allowed.
    """
    from league.population.evaluation.head_to_head import Winner

    (a, b), how_sure = result.players, f"with a confidence of {decision.confidence:.4g}"
    scale = 2.0 * (result.spec.max_return - result.spec.min_return)
    words = {
        Winner.A: f"Decided: {a} is stronger than {b}, {how_sure}.",
        Winner.B: f"Decided: {a} is weaker than {b}, {how_sure}.",
        Winner.LEVEL: f"Decided: {a} and {b} are level, {how_sure}: a mean lead is less than "
        f"{(decision.margin or 0.0) * scale:.3g} a match.",
        Winner.OPEN: f"Undecided: these matches do not show who is stronger, {a} or {b}. Raise --at-most.",
    }
    low, high = (format_number(bound, signed=True) for bound in decision.lead[1:])
    console.print(words[decision.winner])
    console.print(
        f"{a}'s mean lead is {format_number(decision.lead.mean, signed=True)} a match, between {low} and {high} "
        f"{how_sure}. All intervals here hold however often one looked."
    )


def _print_cooperative(result: HeadToHead, console: Console) -> None:
    """Print the joint return of a cooperative game, in which nobody wins; of one seat, which team does better."""
    from league.population.evaluation.head_to_head import A

    a, b = result.players
    if result.spec.seats == 1:
        _print_teams(result, console)
        return
    console.print(
        f"In this game all players get the same. The mean return of {a} and {b} together is "
        f"{format_interval(result.returns[A])}"
    )
    if result.share_of_optimum is None:
        console.print("a match; the best possible is not known.")
    else:
        console.print(
            f"a match, {format_percent(result.share_of_optimum)} of the best possible, {result.spec.optimum:g}."
        )


def _print_teams(result: HeadToHead, console: Console) -> None:
    """Print which of two teams, each playing alone on the same deals, does better, as far as the matches show it."""
    from league.population.evaluation.head_to_head import A, B

    low, high, (a, b) = result.lead.low, result.lead.high, result.players
    if low is None or high is None:
        verdict = f"One deal cannot show who does better, {a} or {b}: play more matches."
    elif low > 0 or high < 0:
        better, other = (a, b) if low > 0 else (b, a)
        verdict = f"{better} does better than {other}."
    else:
        verdict = f"These matches do not show who does better, {a} or {b}."
    console.print(f"{verdict} Each played alone, both on the same deals.")
    for side in (A, B):
        console.print(f"{result.players[side]}'s mean return is {format_interval(result.returns[side])} a match.")
    console.print(f"{a} has {format_interval(result.lead, signed=True)} a match more than {b}.")
    if result.spec.optimum is not None:
        console.print(f"The best possible is {result.spec.optimum:g}.")


def _role_table(result: HeadToHead) -> Table:
    """Return player A's results by role; a cooperative game has no score, because nobody wins."""
    from rich.table import Table

    from league.population.evaluation.head_to_head import A
    from league.population.evaluation.welfare import common_interest

    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    cooperative = common_interest(result.spec)
    table.add_column(f"{result.players[A]} as", no_wrap=True)
    for column in ("matches", "mean return", "95% interval", *(() if cooperative else ("score", "95% interval"))):
        table.add_column(column, justify="right", no_wrap=True)
    for name, role in result.by_role.items():
        mean_return = format_number(role.returns.mean, signed=True)
        cells = [name, str(role.matches), mean_return, _format_bounds(role.returns, signed=True)]
        table.add_row(*cells, *([] if cooperative else [format_number(role.score.mean), _format_bounds(role.score)]))
    return table


def _format_bounds(estimate: Estimate, signed: bool = False) -> str:
    if estimate.low is None:
        return "–"
    return f"{format_number(estimate.low, signed)} to {format_number(estimate.high, signed)}"


def _seat_labels(result: HeadToHead, index: int) -> list[str]:
    """Return the players of one match by seat; two players of one name are distinguished."""
    a, b = result.players
    names = (a, b) if a != b else (f"{a} (A)", f"{b} (B)")
    return [names[side] for side in result.matches[index].seating]
