"""``league lab opponents``: how well can a player model its opponents, and what does playing by that belief earn?"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, NamedTuple

from league.cli.formatting import (
    estimate_to_json,
    format_number,
    format_percent,
    match_progress,
    plain_table,
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
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from arena.remote.usage import Usage
    from games.spec import GameSpec
    from league.lab.comparisons.opponent_models import OpponentModels, PlayValues, Prediction
    from league.lab.opponents.predictors import PredictionAccuracy
    from league.theory.statistics import Estimate

EXAMPLES = (
    "runs/pocket --game kuhn_poker --against random equilibrium always:bet",
    "runs/pocket@main-000120 --game tiny_hanabi --against runs/other random --matches 2000 --json",
)
NOTES = PLAYERS


def add_arguments(parser: Parser) -> None:
    """Add what the command is given."""
    parser.add_argument("player", metavar="PLAYER")
    add_game_option(parser)
    parser.add_argument(
        "--against", nargs="+", required=True, metavar="PLAYER", help="players to tell apart, two or more"
    )
    parser.add_argument(
        "--matches", type=COUNT, default=600, metavar="N", help="with each of them, at least (default: 600)"
    )
    add_seed_option(parser)
    add_player_options(parser)
    add_json_option(parser)


class OpponentsReport(NamedTuple):
    """How well a player can model the other player."""

    spec: GameSpec
    player: str
    types: tuple[str, ...]
    matches: int  # with each, at least
    seed: int
    models: OpponentModels
    usage: dict[str, Usage]


def run(arguments: argparse.Namespace) -> OpponentsReport:
    """Play matches with each of the others, and learn from the player's observations who they are and what they do."""
    from games.registry import make_game
    from league.lab.comparisons.opponent_models import measure_opponents
    from league.population.players.engines import Engines
    from league.population.players.player import resolve
    from league.population.players.settings import PlayerSettings

    spec, names = make_game(arguments.game).spec, tuple(arguments.against)
    with Engines(PlayerSettings.of(arguments)) as engines:
        player, *types = (resolve(text, spec, engines) for text in (arguments.player, *names))
        engines.check_settings([arguments.player, *names])
        with match_progress() as progress:
            task = progress.add_task(f"playing {spec.alias}", total=arguments.matches * len(types))
            models = measure_opponents(
                player, types, arguments.matches, arguments.seed, lambda _: progress.advance(task)
            )
        return OpponentsReport(spec, player.label, names, arguments.matches, arguments.seed, models, engines.usage())


def to_json(report: OpponentsReport) -> dict[str, Any]:
    """Return the report as JSON data. Values that were not computed are null."""
    models = report.models
    return {
        "game": report.spec.name,
        "player": report.player,
        "against": list(report.types),
        "matches": report.matches,
        "seed": report.seed,
        "type": _prediction_to_json(models.type),
        "action": None if models.action is None else _prediction_to_json(models.action),
        "play": None if models.play is None else models.play._asdict(),
        "not_counted_out": models.why_not or None,
        "usage": {player: usage._asdict() for player, usage in report.usage.items()},
    }


def _prediction_to_json(prediction: Prediction) -> dict[str, Any]:
    bayes = prediction.bayes
    return {
        "turns_learned_from": prediction.turns[0],
        "turns_held_out": prediction.turns[1],
        "answers": prediction.answers,
        "uniform_guess": 1.0 / prediction.answers,
        "probe": None if prediction.probe is None else _accuracy_to_json(prediction.probe),
        "table": _accuracy_to_json(prediction.table),
        "most_frequent": _accuracy_to_json(prediction.majority),
        "bayes": None if bayes is None else {"accuracy": bayes.overall, "by_turn": _by_turn(bayes.by_turn)},
    }


def _accuracy_to_json(accuracy: PredictionAccuracy) -> dict[str, Any]:
    by_turn = {turn: estimate_to_json("accuracy", share) for turn, share in accuracy.by_turn.items()}
    return {**estimate_to_json("accuracy", accuracy.overall), "by_turn": _by_turn(by_turn)}


def _by_turn(values: Any) -> dict[str, Any]:
    """Return accuracies by the number of turns before as accuracies by turn, counted from 1."""
    return {str(turn + 1): value for turn, value in values.items()}


def print_report(report: OpponentsReport, console: Console) -> None:
    """Print how often predictors, chance and a Bayesian are right, and the value of play by a belief."""
    models, names = report.models, ", ".join(report.types)
    console.print(f"What {report.player} can know in {report.spec.alias} about its opponent", style="bold")
    console.print(
        f"With each of {names}: {report.matches} matches or more, on the same deals, in both seats (seed "
        f"{report.seed}). Every third deal is held out; intervals are of 95 %.",
        markup=False,
    )
    if models.type.probe is None:
        console.print(f"{report.player} has no hidden states to read, so there is no linear probe.")
    _print_prediction(f"Which of the {models.type.answers} is it?", models.type, console)
    if models.action is None:
        console.print(
            "\nThe opponent never chooses from a list after one of the player's turns, so there is nothing to predict."
        )
    else:
        _print_prediction(f"What will it do next, of {models.action.answers} actions?", models.action, console)
    if models.play is None:
        console.print(
            f"\nThe game is not enumerated, so there is no Bayesian prediction: {models.why_not}", markup=False
        )
    else:
        _print_play(models.play, console)
    print_usage(report.usage, console)


def _print_prediction(question: str, prediction: Prediction, console: Console) -> None:
    """Print a question's sentence and table."""
    shares = {
        "the linear probe": prediction.probe and prediction.probe.overall.mean,
        "a table from observations to answers": prediction.table.overall.mean,
        "the most frequent answer": prediction.majority.overall.mean,
        "a uniform guess": 1.0 / prediction.answers,
        "a Bayesian": prediction.bayes and prediction.bayes.overall,
    }
    words = [f"{name} {format_percent(share)}" for name, share in shares.items() if share is not None]
    console.print(f"\n{question}", style="bold")
    console.print(
        f"Right in {prediction.turns[1]} turns, after learning from {prediction.turns[0]}: {', '.join(words)}."
    )
    console.print(_table(prediction))


def _table(prediction: Prediction) -> Table:
    """Return how often each predictor is right by the turn at which it is asked."""
    table = plain_table("its turn", "linear probe", "table", "most frequent", "Bayesian")
    for turn in prediction.table.by_turn:
        shown = (prediction.probe and prediction.probe.by_turn.get(turn), prediction.table.by_turn[turn])
        bayes = None if prediction.bayes is None else prediction.bayes.by_turn.get(turn)
        usual = prediction.majority.by_turn[turn].mean
        table.add_row(str(turn + 1), *map(_share, shown), format_percent(usual), format_percent(bayes))
    shown = (prediction.probe and prediction.probe.overall, prediction.table.overall)
    bayes = prediction.bayes and prediction.bayes.overall
    table.add_row("all", *map(_share, shown), format_percent(prediction.majority.overall.mean), format_percent(bayes))
    return table


def _share(share: Estimate | None) -> str:
    if share is None or share.low is None:
        return format_percent(share.mean if share else None)
    return f"{format_percent(share.mean)} ({100.0 * share.low:.1f} to {100.0 * (share.high or 0.0):.1f})"


def _print_play(play: PlayValues, console: Console) -> None:
    """Print the return of play by a belief, from the least to the most knowledge."""
    console.print("\nWhat playing by a belief is worth", style="bold")
    console.print("Exact mean returns a match over both seats, against one of these, without knowing which:")
    rows = {
        "as it plays": play.itself,
        "an equilibrium": play.equilibrium,
        "best response to the probe's belief": play.by_probe,
        "best response to Bayes' belief": play.by_belief,
        "best response to each, knowing who it is": play.knowing,
    }
    for name, value in rows.items():
        if value is not None:
            console.print(f"  {name}: {format_number(value, signed=True)}")
