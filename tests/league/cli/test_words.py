"""What commands conclude in words is what their figures show."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console

from arena.records import EndReason, Episode, MatchRequest
from arena.samplers.policy_net import Budget
from games.registry import make_game
from league.cli import main
from league.cli.measuring.exploit import ExploitReport
from league.cli.measuring.exploit import print_report as print_exploit
from league.cli.measuring.standings_report import print_exact, print_game
from league.lab.standings.exact_standings import ExactStandings
from league.lab.standings.standings import GameStandings, game_standings
from league.population.evaluation.approximate_exploitability import AttackSettings, ExactValues, ExploitabilityEstimate
from league.population.results.match_store import MatchStore
from league.population.results.ratings import Ratings
from league.theory.cycles import find_cycles
from league.theory.solvers import nash_average
from league.theory.statistics import Estimate

KUHN, HANABI = make_game("kuhn_poker").spec, make_game("tiny_hanabi").spec


def console() -> Console:
    return Console(file=io.StringIO(), width=200)


def printed(to: Console) -> str:
    assert isinstance(to.file, io.StringIO)
    return to.file.getvalue()


def standings_of(tmp_path, spec, results) -> GameStandings:
    """Return the standings after two matches a result (first, second, first's return), in both seatings."""
    episodes = []
    for deal, (first, second, gain) in enumerate(results):
        other = gain if spec is HANABI else -gain
        for players, returns in (((first, second), (gain, other)), ((second, first), (other, gain))):
            request = MatchRequest(len(episodes), spec.name, deal, len(episodes), players, (False, False))
            episodes.append(Episode(request, (), returns, EndReason.FINISHED))
    with MatchStore(tmp_path / "results.sqlite") as store:
        store.add(episodes)
        return game_standings(store, spec, ratings=Ratings())


@pytest.mark.parametrize("won", range(20, 41, 2))
def test_a_lead_is_certain_exactly_where_its_interval_is_above_zero(tmp_path, won):
    standings = standings_of(tmp_path, KUHN, [("a", "b", 1.0 if deal < won else -1.0) for deal in range(40)])
    to = console()
    print_game(standings, to)
    points, error = standings.lead
    assert (": certain (" in printed(to)) == (points > 1.96 * error)
    assert (": not certain (" in printed(to)) == (points <= 1.96 * error)


def test_a_cooperative_game_says_that_players_of_one_match_earn_the_same(tmp_path):
    to = console()
    print_game(standings_of(tmp_path, HANABI, [("a", "b", 8.0), ("a", "c", 10.0), ("b", "c", 4.0)] * 5), to)
    assert "All players of a match earn the same. Best with others: a." in printed(to)


def exact_of(margin: float) -> ExactStandings:
    """Return exact payoffs of rock, paper and scissors whose narrowest win is ``margin``."""
    payoffs = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -margin], [-1.0, margin, 0.0]])
    names = ("rock", "paper", "scissors")
    return ExactStandings(names, payoffs, nash_average(payoffs), find_cycles(names, payoffs))


def test_a_cycle_by_next_to_nothing_is_not_called_misleading(tmp_path):
    for margin, said in ((0.25, "(by 0.250 a match or more), so Elo misleads"), (1e-4, "by less than 0.001 a match:")):
        to = console()
        print_exact(exact_of(margin), to)
        assert said in printed(to)
        assert "0.000" not in printed(to)
    to = console()
    print_game(standings_of(tmp_path, KUHN, [("a", "b", 1.0), ("a", "b", -1.0)]), to)
    assert "No cycle is certain from matches alone." in printed(to)


def test_the_matrix_has_exact_payoffs_where_they_are_known(tmp_path):
    """Paper and scissors never met; random has no table."""
    results = [("rock", "paper", -1.0), ("rock", "scissors", 1.0), ("rock", "random", 1.0)] * 6
    to = console()
    print_game(standings_of(tmp_path, KUHN, results), to, matrix=True, exact=exact_of(0.25))
    table = printed(to).split("margin (? may be 0; = is exact)")[1].split("should play next")[0]
    cells = [row.split() for row in table.splitlines()[1:5]]
    rows = {row[1]: dict(zip([line[1] for line in cells], row[2:], strict=True)) for row in cells}
    assert rows["paper"]["scissors"] == "=−0.25"
    assert rows["rock"]["scissors"] == "=+1.00"
    assert rows["rock"]["random"] == "+1.00"
    assert rows["paper"]["random"] == rows["rock"]["rock"] == "–"


def exploit_report(exact: ExactValues | None) -> ExploitReport:
    """Return an exploiter of uniform play in Kuhn poker that was lucky in its deals."""
    lucky = Estimate(0.476, 0.42, 0.53)
    settings = AttackSettings(seats=(0, 1), steps=10, matches=100, seed=0, budget=Budget(1.0, 1.0), reference=None)
    nash_conv = Estimate(0.952, 0.84, 1.06)
    estimates = ((Estimate(0.0, -0.1, 0.1),) * 2, (lucky, lucky), (lucky, lucky))
    roles = ("first", "second")
    estimate = ExploitabilityEstimate("random", KUHN, roles, settings, 10, True, *estimates, nash_conv, exact, None)
    return ExploitReport(estimate, "folder", False, {})


def test_an_exploiters_exact_gain_comes_before_its_luck():
    """Uniform play: 1/8 to the first seat; perfect answers get 1/2 and 5/12, so its NashConv is 11/12."""
    to = console()
    print_exploit(exploit_report(ExactValues((0.125, -0.125), (0.5, 0.25), (0.5, 5 / 12))), to)
    assert "Exploitability: 0.458, of which this exploiter gains 0.375. Both are exact." in printed(to)
    assert "it gained 0.476 (95% interval 0.420 to 0.530), luck included" in printed(to).replace("\n", " ")
    assert "lower bound" not in printed(to)
    to = console()
    print_exploit(exploit_report(None), to)
    assert "A lower bound on exploitability: 0.476" in printed(to)


def test_two_teams_are_compared_in_words(capsys):
    main(["match", "scripted:optimal", "scripted:poor", "--game", "lookup", "--matches", "40", "--seed", "1"])
    said = " ".join(capsys.readouterr().out.split())
    assert "scripted:optimal does better than scripted:poor. Each played alone, both on the same deals." in said
    assert "scripted:optimal's mean return is " in said
    assert "scripted:poor's mean return is " in said
    main(["match", "scripted:optimal", "scripted:optimal", "--game", "lookup", "--matches", "8", "--seed", "1"])
    assert "These matches do not show who does better" in " ".join(capsys.readouterr().out.split())


def test_players_of_a_cooperative_game_are_both_named(capsys):
    main(["match", "random", "always:a1", "--game", "tiny_hanabi", "--matches", "20", "--seed", "1"])
    said = " ".join(capsys.readouterr().out.split())
    assert "tiny_hanabi: random with always:a1" in said
    assert "The mean return of random and always:a1 together is " in said
