"""``league credit``: every credit rule on the same matches, beside the exact gradient of the policy that plays."""

from __future__ import annotations

import argparse
from pathlib import Path

from games.common.destinations import picture_to_write
from games.common.errors import UsageError
from games.registry import make_game
from games.spec import GameSpec
from league.cli.measuring.credit_report import CreditReport, print_report, ranked, to_json
from league.config.credit import CreditConfig
from league.lab.credit.gradient_accuracy import compare_rules
from league.lab.credit.influence import influence_by_role
from league.lab.credit.matches import BatchPlan
from league.lab.credit.sampled import compare_by_continuations
from league.population.players.engines import Engines
from league.population.players.player import Player, resolve
from league.population.players.settings import PlayerSettings
from league.population.storage.run_dir import Run, find_run
from league.theory.exact.exploitability import exact_form
from league.training.monitors.terminal import Terminal

__all__ = ["print_report", "run", "to_json"]

BATCHES, SAMPLED_BATCHES = 16, 2  # where there is an exact gradient, and where turns are played on
GROUP = 8  # matches of a start where a run does not say
UNIFORM = "random"  # who plays a game that is named alone


def run(arguments: argparse.Namespace) -> CreditReport:
    """Play the batches, measure every rule, and draw the picture that is asked for."""
    picture = picture_to_write(arguments.output, "-o")
    found = find_run(arguments.target.partition("@")[0])
    run = None if found is None else Run(found)
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
        report = measure(player, credit, plan, arguments.rules, sampled)
    if picture is not None:
        _draw(report, picture)
    return report


def measure(
    player: Player, credit: CreditConfig, plan: BatchPlan, rules: list[str], sampled: str | None
) -> CreditReport:
    """Return what rules are worth under a player's policy, by continuations where ``sampled`` says why.

    Raises UsageError.
    """
    if sampled:
        with Terminal(stderr=True).status(f"playing matches of {player.spec.alias}, and on from their middles"):
            found, left_out = compare_by_continuations(player, credit, plan, rules)
        return CreditReport(player.label, player.spec, plan, False, found, left_out, sampled)
    with Terminal(stderr=True).status(f"asking {player.label} at every information state of {player.spec.alias}"):
        tabulated = player.tabulate()
    with Terminal(stderr=True).status(f"playing {plan.batch * plan.batches} matches and crediting their turns"):
        found, left_out = compare_rules(tabulated.table, player.roles, credit, plan, rules)
    moved = influence_by_role(tabulated.table, player.roles)
    return CreditReport(player.label, player.spec, plan, tabulated.exact, found, left_out, influence=moved)


def reason_to_sample(player: Player) -> str | None:
    """Return why a game cannot be enumerated; None if it can.

    Raises UsageError for a game that can neither be enumerated nor be taken up from the middle of a match.
    """
    try:
        exact_form(player.spec.name)
    except UsageError as error:
        if player.spec.submatch_games or any(len(members) > 1 for members in player.members):
            raise
        return str(error)
    return None


def _spec_of(game: str, run: Run | None) -> GameSpec:
    """Return a game's facts. Raises UsageError for a name that is neither a game nor a run."""
    try:
        return make_game(game).spec
    except UsageError as error:
        also = "" if run is not None else " Nor is there a run there: it is named by its folder, or its name in runs/."
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
