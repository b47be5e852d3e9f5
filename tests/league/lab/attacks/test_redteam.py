"""``league lab redteam``: exact where brute force or a published value says what must come out."""

import itertools
import json

import numpy as np
import pytest

from arena.samplers.policy_net import Budget
from games.registry import make_game
from games.wrappers.injections import injection
from league.cli.dispatch import main
from league.lab.attacks.curve import policy_curve, running_worst
from league.lab.attacks.injection_search import InjectionSearch
from league.population.evaluation.constrained_best_response import constrained_response
from league.theory.exact.exploitability import PolicyTable, exploitability, head_to_head, uniform_table
from league.theory.exact.game_value import nash_equilibrium
from roles.cards import load_roles

GAME = "kuhn_poker"
ROLES = load_roles(make_game(GAME).spec)


def test_the_curve_goes_from_nothing_to_the_exploitability():
    table = uniform_table(GAME)
    curve = policy_curve(table, table, [1.0, 0.0, 0.3, 0.1], "distance", ROLES)
    losses = [point.loss.mean for point in curve.points]
    assert [point.budget for point in curve.points] == [0.0, 0.1, 0.3, 1.0]
    assert losses == sorted(losses)
    assert losses[0] == pytest.approx(0.0)
    assert losses[-1] == pytest.approx(exploitability(table)) == pytest.approx(11 / 24)


def test_an_attacker_who_controls_a_share_wins_at_most_that_share_of_each_step():
    """With one decision a seat, the loss is linear in the share; the first seat of Kuhn decides twice, so convex."""
    table = uniform_table(GAME)
    points = policy_curve(table, table, [0.0, 0.5, 1.0], "control", ROLES).points
    assert points[1].by_seat[1] == pytest.approx(points[2].by_seat[1] / 2)


def test_nothing_is_won_from_an_equilibrium_but_what_the_reference_left():
    equilibrium = nash_equilibrium(make_game(GAME).spec)
    points = policy_curve(equilibrium, equilibrium, [0.0, 0.5, 1.0], "distance", ROLES).points
    assert [point.loss.mean for point in points] == pytest.approx([0.0, 0.0, 0.0], abs=1e-9)


@pytest.mark.parametrize("budget", [Budget(0.5), Budget(1.0, 0.3), Budget(0.5, 0.4), Budget()])
def test_the_response_keeps_to_its_budget_and_has_its_value(budget):
    target, reference = uniform_table(GAME), nash_equilibrium(make_game(GAME).spec)
    for seat in (0, 1):
        response = constrained_response(target, reference, seat, budget)
        rows = dict(target.probabilities) | dict(response.policy)
        tables = [PolicyTable(GAME, rows if other == seat else target.probabilities) for other in (0, 1)]
        assert head_to_head(tables)[seat] == pytest.approx(response.value)
        for key, row in response.policy.items():
            moved = sum(abs(a - b) for a, b in zip(row, reference.probabilities[key], strict=True)) / 2
            assert sum(row) == pytest.approx(1.0)
            assert moved <= min(budget.control, budget.control * budget.distance) + 1e-12


def test_a_hostile_partner_takes_what_a_brute_force_over_his_pure_policies_does():
    """In tiny Hanabi each seat sees its card of two, and the second the first's action of three: 9 and 729 policies."""
    table = uniform_table("tiny_hanabi")
    [together, _] = head_to_head([table, table])
    curve = policy_curve(table, table, [0.0, 0.5, 1.0], "partner", load_roles(make_game("tiny_hanabi").spec))
    for seat in (0, 1):
        keys = [key for key in table.probabilities if key[0] == seat]
        rows = [np.eye(len(table.probabilities[key])).tolist() for key in keys]
        returns = []
        for choice in itertools.product(*rows):
            hostile = PolicyTable(
                "tiny_hanabi", dict(table.probabilities) | dict(zip(keys, map(tuple, choice), strict=True))
            )
            returns.append(head_to_head([hostile, table] if seat == 0 else [table, hostile])[1 - seat])
        assert curve.points[-1].by_seat[seat] == pytest.approx(together - min(returns))
    assert curve.points[0].loss.mean == pytest.approx(0.0)
    assert curve.points[1].by_seat == pytest.approx([loss / 2 for loss in curve.points[2].by_seat])


def test_a_hostile_partner_of_a_zero_sum_game_is_its_best_response():
    table = uniform_table(GAME)
    hostile, winning = (policy_curve(table, table, [1.0], kind, ROLES).points[0] for kind in ("partner", "control"))
    assert hostile.by_seat == pytest.approx(winning.by_seat)


def test_the_worst_endings_are_those_that_pay_the_attacker_most():
    table = uniform_table(GAME)
    shown = policy_curve(table, table, [1.0], "distance", ROLES).transcripts
    assert len(shown) == 3
    assert all("+2" in transcript.title for transcript in shown)  # the most that Kuhn pays


def test_who_may_try_more_wins_no_less_and_never_less_than_nothing():
    losses = [(-1.0, -1.0), (0.2, 0.0), (0.1, 0.0), (0.5, 0.1)]
    points, best = running_worst([0, 1, 2, 3, 9], list("abcd"), losses.__getitem__)
    assert [point.loss.mean for point in points] == pytest.approx([0.0, 0.0, 0.1, 0.1, 0.3])
    assert [point.detail for point in points] == ["", "", "b", "b", "d"]
    assert best == 3


def test_the_search_finds_a_planted_text_sooner_than_the_order_of_numbers():
    """What wins: the second seed, and with each of three mutations more. The tree has over 20,000 texts."""

    def loss(number):
        text = injection(number)
        return (0.2 + 0.2 * len({0, 1, 2} & set(text.path))) * (text.seed == 1)

    search = InjectionSearch(loss, seed=0)
    tried = [search.step() for _ in range(200)]
    assert len(set(tried)) == 200
    assert max(map(loss, tried)) == pytest.approx(0.8)
    again = InjectionSearch(loss, seed=0)
    assert [again.step() for _ in range(50)] == tried[:50]


def test_the_command_tells_a_growing_curve(capsys):
    assert main(["redteam", "random", "--game", GAME, "--budget", "1", "0", "0.5", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [point["budget"] for point in report["curve"]] == [0.0, 0.5, 1.0]
    assert report["curve"][-1]["loss"] == pytest.approx(11 / 24)
    assert report["exact"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("attack", "budgets"), [("words", ["0", "2"]), ("memory", ["0", "2"]), ("observations", ["0", "1"])]
)
def test_a_model_is_attacked_by_what_it_is_told_and_shown(run_dir, capsys, tmp_path, attack, budgets):
    picture = tmp_path / "curve.svg"
    words = ["redteam", str(run_dir), "--game", GAME, "--attack", attack, "--budget", *budgets]
    words += ["--transfer", "random", str(run_dir)]
    assert main([*words, "-o", str(picture), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    points = report["curve"]
    for point in points:  # what reads nothing loses nothing, and the player itself what it lost
        assert point["transfer"]["random"] == 0.0
        assert point["transfer"][report["player"]] == pytest.approx(point["loss"])
    assert points[-1]["loss"] > 0.0
    assert points[0]["loss"] == 0.0
    assert all(a["loss"] <= b["loss"] for a, b in itertools.pairwise(points))
    assert "<svg" in picture.read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--budget", "2"], "--budget 2"),
        (["--budget", "nan"], "--budget nan"),
        (["--attack", "words", "--budget", "0.5"], "whole number"),
        (["--attack", "words", "--budget", "nan"], "whole number"),
        (["--transfer", "random"], "--attack distance finds no text"),
        (["--attack", "words", "--transfer", "nobody"], "nobody"),
        (["-o", "curve.txt"], "a picture is a .png or .svg"),
        (["--attack", "words", "--game", "connect_four"], "can only be measured exactly"),
    ],
)
def test_what_cannot_be_done_is_told(words, message, capsys):
    assert main(["redteam", "random", "--game", GAME, *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.thorough
def test_where_nothing_can_be_counted_out_exploiters_are_trained(capsys):
    words = ["--attack", "control", "--budget", "0.5", "1", "--steps", "256", "--matches", "16", "--json"]
    assert main(["redteam", "random", "--game", "connect_four", *words]) == 0
    report = json.loads(capsys.readouterr().out)
    assert not report["exact"]
    assert [point["budget"] for point in report["curve"]] == [0.5, 1.0]
    assert all(point["loss_low"] <= point["loss"] <= point["loss_high"] for point in report["curve"])


def test_harm_is_the_mean_loss_of_the_others_at_a_table_of_three():
    """Kuhn's three seats win what the others lose: the others' mean return is minus half of the attacker's."""
    game = "kuhn_poker(players=3)"
    target = uniform_table(game)
    for seat in range(3):
        won, harm = (constrained_response(target, target, seat, Budget(), harm=harm) for harm in (False, True))
        assert harm.value == pytest.approx(won.value / 2)
        rows = {**target.probabilities, **harm.policy}
        tables = [PolicyTable(game, rows) if other == seat else target for other in range(3)]
        returns = head_to_head(tables)
        assert harm.value == pytest.approx(-sum(returns[other] for other in range(3) if other != seat) / 2)
