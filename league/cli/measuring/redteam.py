"""``league lab redteam``: an attacker's gain against a player, by its means."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from games.common.destinations import picture_to_write
from games.common.errors import NotEnumerable, UsageError
from league.cli.formatting import format_interval, format_number, plain_table
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

    from games.spec import GameSpec
    from league.lab.attacks.curve import AttackCurve
    from league.population.players.engines import Engines
    from league.population.players.player import Player
    from league.theory.exact.exploitability import PolicyTable
    from league.theory.exact.states import Key

    Ask = Callable[[str], Mapping[Key, tuple[float, ...]]]

EXAMPLES = (
    "runs/pocket --game kuhn_poker -o curve.png",
    "runs/pocket --game kuhn_poker --attack words --budget 0 16 64 --unquoted",
    "runs/pocket --game tic_tac_toe --attack control --budget 0.5 1 --steps 20000",
)
NOTES = PLAYERS
SHARES = tuple(step / 10 for step in range(11))
TRAINED_SHARES = (0.25, 0.5, 1.0)  # where each budget trains an exploiter of its own
EDITS = (  # of observations and role cards, in the order in which an attacker may try them
    *("renamed({})", "renamed({},seed=1)", "permuted({})", "paraphrased({})", "paraphrased({},seed=1)"),
    *("noisy({})", "noisy({},seed=1)", "noisy({},percent=50)", "noisy({},percent=50,seed=1)"),
)
TRIES = (0, 8, 16, 32, 64)
MOST_TRIES = 100_000
BUDGETS = {  # by attack: the meaning of its budget
    "distance": "total variation from the reference at every turn",
    "control": "share of the attacker's turns that it controls",
    "observations": "edits of rules and observations to try",
    "words": "texts to try",
    "memory": "notes to try",
    "partner": "share of its turns that a hostile partner controls",
}
IN_SEATS = ("distance", "control", "partner")  # attacks from another seat, whose budget is a share


def add_arguments(parser: Parser) -> None:
    """Add what the command is given."""
    parser.add_argument("player", metavar="PLAYER")
    add_game_option(parser)
    parser.add_argument(
        "--attack",
        choices=["distance", "control", "partner", "observations", "words", "memory"],
        default="distance",
        help="what the attacker may do: leave its reference by some distance; control some turns, to win or to do "
        "harm; or change what the player is shown, told, or finds in its notes (default: distance)",
    )
    parser.add_argument(
        "--budget",
        type=float,
        nargs="+",
        metavar="B",
        help="shares from 0 to 1, or numbers of edits or texts to try (default: several that suit the attack)",
    )
    parser.add_argument(
        "--reference", metavar="PLAYER", help="how the attacker plays with a budget of 0 (default: the player)"
    )
    parser.add_argument(
        "--transfer",
        nargs="+",
        default=[],
        metavar="PLAYER",
        help="with edits, words or notes: what others lose to the worst attack found against the player",
    )
    parser.add_argument(
        "--unquoted", action="store_true", help="insert words as they are, not as another player's speech"
    )
    parser.add_argument(
        "--steps",
        type=COUNT,
        default=60_000,
        metavar="N",
        help="decisions to train each exploiter on, if the game is too large to enumerate (default: 60000)",
    )
    parser.add_argument(
        "--matches", type=COUNT, default=4_000, metavar="N", help="deals to measure them in (default: 4000)"
    )
    add_seed_option(parser, "the search and training")
    parser.add_argument("-o", "--output", metavar="FILE", help="draw the curve: a .png or .svg file")
    add_player_options(parser)
    add_json_option(parser)


class RedTeamReport(NamedTuple):
    """An attack on a player."""

    player: str
    reference: str
    spec: GameSpec
    attack: str
    exact: bool  # False: exploiters were trained, and their losses are lower bounds from matches
    curve: AttackCurve
    roles: tuple[str, ...]
    transfer: Mapping[str, tuple[float, ...]] = {}  # by player what it loses by each point's worst edit, text or note


def run(arguments: argparse.Namespace) -> RedTeamReport:
    """Measure the attack, and draw a picture if asked to."""
    from games.registry import make_game
    from league.population.players.engines import Engines
    from league.population.players.player import resolve
    from league.population.players.settings import PlayerSettings

    picture = picture_to_write(arguments.output, "-o")
    spec = make_game(arguments.game).spec
    if spec.seats < 2:
        raise UsageError(f"{spec.name} has one seat, so there is nobody to attack.")
    budgets = _budgets(arguments.attack, arguments.budget)
    if arguments.transfer and arguments.attack in IN_SEATS:
        raise UsageError(
            f"--transfer tries on others the texts found against {arguments.player}; --attack {arguments.attack} "
            "finds no text. Use --attack observations, words or memory."
        )
    with Engines(PlayerSettings.of(arguments)) as engines:
        player = resolve(arguments.player, spec, engines)
        reference = resolve(arguments.reference, spec, engines) if arguments.reference else player
        engines.check_settings([player.label, reference.label])
        others = {name: resolve(name, spec, engines) for name in arguments.transfer}  # wrong names fail at once
        report = _measure(arguments, player, reference, budgets, engines)
        transfer = {other.label: _transferred(name, other, report, engines) for name, other in others.items()}
        report = report._replace(transfer=transfer)
    if picture is not None:
        _draw(report, picture)
    return report


def _measure(
    arguments: argparse.Namespace, player: Player, reference: Player, budgets: Sequence[float] | None, engines: Engines
) -> RedTeamReport:
    """Return the attack: exact if the game can be enumerated, otherwise by trained exploiters if possible."""
    from league.lab.attacks.curve import policy_curve
    from league.theory.exact.exploitability import information_positions
    from league.theory.exact.sequence_form import sequence_form
    from league.training.monitors.terminal import Terminal

    attack, roles = arguments.attack, tuple(role.name for role in player.roles)
    try:
        information_positions(player.spec.name)  # tells at once that a game is far too large
        sequence_form(player.spec.name)
        with Terminal(stderr=True).status(f"asking {player.label} at every information state"):
            victim = player.tabulate()
    except UsageError as error:
        if attack not in ("distance", "control"):
            raise NotEnumerable(
                f"{error} An attack on {attack} can only be measured exactly; try --attack control."
            ) from None
        curve = _trained(arguments, player, reference, budgets or TRAINED_SHARES)
        return RedTeamReport(player.label, reference.label, player.spec, attack, False, curve, roles)
    held = victim.table if reference is player else reference.tabulate().table
    if attack in IN_SEATS:
        curve = policy_curve(victim.table, held, budgets or SHARES, attack, player.roles)
    else:
        ask = partial(_table_of, arguments.player, engines)
        counts = None if budgets is None else [int(budget) for budget in budgets]
        curve = (
            _observations(victim.table, held, counts or range(len(EDITS) + 1), ask, player)
            if attack == "observations"
            else _words(victim.table, held, counts or TRIES, ask, player, arguments)
        )
    return RedTeamReport(player.label, reference.label, player.spec, attack, victim.exact, curve, roles)


def _transferred(name: str, player: Player, report: RedTeamReport, engines: Engines) -> tuple[float, ...]:
    """Return what another player loses to each point's worst edit, averaged over seats."""
    from league.lab.attacks.curve import edited_losses
    from league.training.monitors.terminal import Terminal

    with Terminal(stderr=True).status(f"asking {player.label} at every information state"):
        table = player.tabulate().table
        lost = {
            game: fmean(edited_losses(table, _table_of(name, engines, game), table))
            for game in {point.edited for point in report.curve.points if point.edited}
        }
    return tuple([lost.get(point.edited, 0.0) for point in report.curve.points])


def _table_of(player: str, engines: Engines, edited: str) -> Mapping[Key, tuple[float, ...]]:
    """Return a player's policy in an edited game, by the information states of the game."""
    from games.registry import make_game
    from league.population.players.player import resolve

    return resolve(player, make_game(edited).spec, engines).tabulate().table.probabilities


def _observations(
    victim: PolicyTable, held: PolicyTable, counts: Sequence[int], ask: Ask, player: Player
) -> AttackCurve:
    """Return the curve of an attacker that edits the player's instructions and observations."""
    from league.lab.attacks.curve import AttackCurve, edited_losses, moved_most, running_worst

    names = [edit.format(victim.game) for edit in EDITS]
    points, worst = running_worst(counts, names, lambda index: edited_losses(victim, ask(names[index]), held))
    shown = () if worst is None else moved_most(victim, ask(names[worst]), names[worst], player.roles)
    return AttackCurve(tuple(points), shown)


def _words(
    victim: PolicyTable,
    held: PolicyTable,
    counts: Sequence[int],
    ask: Ask,
    player: Player,
    arguments: argparse.Namespace,
) -> AttackCurve:
    """Return the curve of an attacker that searches for words to say to the player."""
    from games.wrappers.injections import injection
    from league.lab.attacks.curve import AttackCurve, edited_losses, moved_most, running_worst
    from league.lab.attacks.injection_search import InjectionSearch
    from league.training.monitors.terminal import Terminal

    losses: dict[int, tuple[float, ...]] = {}
    wrapper, unquoted = (
        ("remembered", "") if arguments.attack == "memory" else ("injected", ",quoted=0" * arguments.unquoted)
    )

    def name(number: int) -> str:
        return f"{wrapper}({victim.game}{f',text={number}' if number else ''}{unquoted})"

    def loss(number: int) -> float:
        losses[number] = edited_losses(victim, ask(name(number)), held)
        return math.fsum(losses[number])

    search, numbers = InjectionSearch(loss, arguments.seed), list[int]()
    with Terminal(stderr=True).status(f"saying up to {max(counts)} texts to {player.label}"):
        while len(numbers) < max(counts) and (number := search.step()) is not None:
            numbers.append(number)
    texts = [f"{name(number)}: {injection(number).template}" for number in numbers]
    games = [*map(name, numbers)]
    points, worst = running_worst(counts, games, lambda index: losses[numbers[index]], texts)
    if worst is None:
        return AttackCurve(tuple(points), ())
    return AttackCurve(tuple(points), moved_most(victim, ask(games[worst]), games[worst], player.roles))


def _trained(arguments: argparse.Namespace, player: Player, reference: Player, budgets: Sequence[float]) -> AttackCurve:
    """Return the curve of trained exploiters, one for each budget: lower bounds with intervals."""
    from arena.samplers.policy_net import Budget
    from league.lab.attacks.curve import AttackCurve, AttackPoint
    from league.population.evaluation.approximate_exploitability import (
        AttackSettings,
        estimate_exploitability,
        require_rllib,
    )
    from league.population.players.player import reference_of
    from league.training.monitors.terminal import Terminal

    require_rllib()
    reference_of(reference)
    seats, points = tuple(range(player.spec.seats)), []
    for amount in sorted(budgets):
        budget = Budget(control=amount) if arguments.attack == "control" else Budget(distance=amount)
        settings = AttackSettings(seats, arguments.steps, arguments.seed, budget, reference, arguments.matches)
        with Terminal(stderr=True).status(f"training an exploiter of {player.label} with the budget {amount:g}"):
            estimate = estimate_exploitability(player, settings, lambda _steps, _won: True)
        points.append(AttackPoint(amount, estimate.exploitability, tuple(gain.mean for gain in estimate.gains)))
    return AttackCurve(tuple(points), ())


def _budgets(attack: str, budgets: Sequence[float] | None) -> Sequence[float] | None:
    """Return the budgets, growing; None for those of the attack. Raises UsageError for one out of range."""
    if budgets is None:
        return None
    for budget in budgets:
        if attack in IN_SEATS and not 0.0 <= budget <= 1.0:
            raise UsageError(f"--budget {budget:g}: for --attack {attack} give a share between 0 and 1.")
        if attack not in IN_SEATS and not (0.0 <= budget <= MOST_TRIES and budget.is_integer()):
            raise UsageError(
                f"--budget {budget:g}: for --attack {attack} give a whole number of tries from 0 to {MOST_TRIES:,}."
            )
    return sorted(set(budgets))


def _draw(report: RedTeamReport, path: Path) -> None:
    from league.training.board.figures.attack import CurvePoint, save_attack_figure  # matplotlib is slow to import

    points = [CurvePoint(point.budget, *point.loss) for point in report.curve.points]
    title = f"{report.player} in {report.spec.alias}, attacked by {report.attack}"
    save_attack_figure(path, title, BUDGETS[report.attack], points)


def to_json(report: RedTeamReport) -> dict[str, Any]:
    """Return the report as JSON data. Values that were not computed are null."""
    return {
        "game": report.spec.name,
        "player": report.player,
        "reference": report.reference,
        "attack": report.attack,
        "budget_is": BUDGETS[report.attack],
        "exact": report.exact,
        "roles": list(report.roles),
        "curve": [
            {
                "budget": point.budget,
                "loss": point.loss.mean,
                "loss_low": point.loss.low,
                "loss_high": point.loss.high,
                "by_seat": list(point.by_seat),
                "worst": point.detail or None,
                "transfer": {label: losses[number] for label, losses in report.transfer.items()},
            }
            for number, point in enumerate(report.curve.points)
        ],
        "transcripts": [{"title": shown.title, "lines": list(shown.lines)} for shown in report.curve.transcripts],
    }


def print_report(report: RedTeamReport, console: Console) -> None:
    """Print the curve as a table, and the worst transcripts."""
    console.print(f"{report.player} in {report.spec.alias}, attacked by {report.attack}", style="bold")
    console.print(f"The budget: {BUDGETS[report.attack]}; the attacker's reference is {report.reference}.")
    exact = "Exact, as the game is small enough to enumerate."
    otherwise = "What trained exploiters gained in fresh deals: a perfect attacker wins at least as much."
    if report.attack not in IN_SEATS and not report.exact:
        otherwise = "Estimated from sampled replies, so it is approximate."
    console.print(exact if report.exact else otherwise)
    table = plain_table(
        "budget", "loss a match, averaged over seats", *report.roles, *map("{} loses".format, report.transfer)
    )
    for number, point in enumerate(report.curve.points):
        same = point.loss.low == point.loss.high
        loss = format_number(point.loss.mean) if same else format_interval(point.loss)
        by_seat = [format_number(value, True) for value in point.by_seat] or ["–"] * len(report.roles)
        others = [format_number(losses[number], True) for losses in report.transfer.values()]
        table.add_row(f"{point.budget:g}", loss, *by_seat, *others)
    console.print(table)
    worst = report.curve.points[-1].detail
    if worst:
        console.print(f"\nThe worst: {worst}", markup=False, highlight=False)
    for shown in report.curve.transcripts:
        console.print(f"\n{shown.title}", style="bold", markup=False)
        for line in shown.lines:
            console.print(line, markup=False, highlight=False)
