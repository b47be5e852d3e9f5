"""Exploiters: budgets by hand and by optimisation, exact best responses within them, and RLlib reaching them."""

import itertools
import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from arena.samplers.policy_net import Budget, Inputs, attack_policy, within_budget
from games.registry import make_game
from games.spec import choice_game
from games.tensors import seat_tensor
from league.population.evaluation.approximate_exploitability import AttackSettings, estimate_exploitability
from league.population.evaluation.constrained_best_response import constrained_best_response
from league.population.players.engines import Engines
from league.population.players.player import resolve
from league.theory.exact.exploitability import PolicyTable, best_response_values, exact_form, head_to_head

KUHN = make_game("kuhn_poker").spec
SMALL_DEBATE = "debate(boxes=3,judge=0,form=1)"
SHARES = st.floats(0.0, 1.0)


def distributions(size=4):
    weights = st.lists(st.floats(0.01, 1.0), min_size=size, max_size=size)
    return weights.map(lambda values: torch.tensor(values, dtype=torch.float64) / sum(values))


def apart(first, second):
    return float(0.5 * (first - second).abs().sum())


def drawn_table(game, seed):
    """Return a table of a game with rows drawn from the simplex."""
    rng, form = np.random.default_rng(seed), exact_form(game)
    rows = {key: tuple(rng.dirichlet(np.ones(len(ids)))) for key, ids in zip(form.keys, form.legal, strict=True)}
    return PolicyTable(game, rows)


# Budgets


@given(distributions(), distributions(), SHARES, SHARES)
def test_a_budget_keeps_to_its_bounds_and_control_is_a_mixture(attack, reference, control, distance):
    played = within_budget(attack, reference, Budget(control, distance))
    assert apart(played, reference) <= control * distance + 1e-9
    assert float(played.sum()) == pytest.approx(1.0)
    assert float(played.min()) >= -1e-12
    mixed = (1.0 - control) * reference + control * attack
    assert within_budget(attack, reference, Budget(control)).tolist() == pytest.approx(mixed.tolist())


@given(distributions(), distributions(), SHARES)
def test_an_attack_within_the_distance_is_left_as_it_is(attack, reference, distance):
    played = within_budget(attack, reference, Budget(distance=distance))
    expected = min(distance, apart(attack, reference))
    assert apart(played, reference) == pytest.approx(expected, abs=1e-9)


def test_distance_reaches_a_policy_that_no_mixture_of_that_control_is():
    reference, attack = torch.tensor([0.3, 0.7]), torch.tensor([0.0, 1.0])  # takes all 0.3 from the first action
    assert within_budget(attack, reference, Budget(distance=0.3)).tolist() == pytest.approx([0.0, 1.0])
    assert within_budget(attack, reference, Budget(control=0.3)).tolist() == pytest.approx([0.21, 0.79])


def test_masked_actions_are_never_played_and_greedy_takes_the_best_legal_one():
    logits, mask = torch.tensor([[9.0, 1.0, 2.0]]), torch.tensor([[0.0, 1.0, 1.0]])
    inputs = Inputs(torch.zeros(1, 1), mask, torch.zeros(1, 3))
    share = 1.0 / (1.0 + np.exp(1.0))
    assert attack_policy(logits, inputs, Budget()).tolist()[0] == pytest.approx([0.0, share, 1.0 - share])
    assert attack_policy(logits, inputs, Budget(), greedy=True).tolist() == [[0.0, 0.0, 1.0]]


# Exact best responses within a budget


@pytest.mark.parametrize("game", ["kuhn_poker", "kuhn_poker(players=3)"])
def test_without_bounds_it_is_the_best_response_and_without_control_the_reference(game):
    target, reference = drawn_table(game, 1), drawn_table(game, 2)
    for seat, best in enumerate(best_response_values(target)):
        assert constrained_best_response(target, reference, seat, Budget()) == pytest.approx(best)
        tables = [reference if other == seat else target for other in range(make_game(game).spec.seats)]
        held = head_to_head(tables)[seat]
        assert constrained_best_response(target, reference, seat, Budget(control=0.0)) == pytest.approx(held)
        assert constrained_best_response(target, reference, seat, Budget(distance=0.0)) == pytest.approx(held)


@pytest.mark.parametrize("control", [0.25, 0.6])
def test_with_control_it_is_the_best_of_all_deterministic_attacks(control):
    """Kuhn's seats have 6 information states of 2 actions, so there are 64 attacks to try."""
    target, reference = drawn_table("kuhn_poker", 3), drawn_table("kuhn_poker", 4)
    for seat in (0, 1):
        keys = [key for key in reference.probabilities if key[0] == seat]
        values = []
        for choice in itertools.product((0, 1), repeat=len(keys)):
            attack = {key: np.eye(2)[chosen] for key, chosen in zip(keys, choice, strict=True)}
            rows = {k: tuple((1 - control) * np.array(reference.probabilities[k]) + control * attack[k]) for k in keys}
            mixed = PolicyTable("kuhn_poker", {**reference.probabilities, **rows})
            values.append(head_to_head([mixed if other == seat else target for other in (0, 1)])[seat])
        assert constrained_best_response(target, reference, seat, Budget(control)) == pytest.approx(max(values))


@settings(max_examples=50)
@given(distributions(3), st.lists(st.floats(-2.0, 2.0), min_size=3, max_size=3), SHARES, SHARES)
def test_one_states_best_within_a_distance_is_the_linear_programs(reference, gains, control, distance):
    """Maximise ν·Q over ν in the simplex with ½‖ν − ρ‖₁ ≤ d, in variables ν and its excess over ρ."""
    from league.population.evaluation.constrained_best_response import _constrained_policy

    share = reference.numpy()
    solved = linprog(
        np.concatenate([-np.array(gains), np.zeros(3)]),
        A_ub=np.vstack([np.hstack([np.eye(3), -np.eye(3)]), np.concatenate([np.zeros(3), np.ones(3)])]),
        b_ub=np.concatenate([share, [distance]]),
        A_eq=np.concatenate([np.ones(3), np.zeros(3)])[None],
        b_eq=[1.0],
    )
    expected = (1.0 - control) * float(share @ gains) - control * solved.fun
    policy = _constrained_policy(gains, tuple(share.tolist()), Budget(control, distance))
    assert np.dot(policy, gains) == pytest.approx(expected, abs=1e-7)


# Training


def attack_on(text, steps, seed=0, seats=(0, 1), matches=500, game=KUHN, **budget):
    target = resolve(str(text), game, Engines())
    bounds = Budget(**budget)
    settings = AttackSettings(seats, steps, seed, bounds, target, matches)
    return estimate_exploitability(target, settings, lambda steps, mean_return: True)


def shortfall(estimate):
    """Return by how much the exploiter's exact value misses the exact best response, at worst over seats."""
    return max(best - won for best, won in zip(estimate.exact.best_response, estimate.exact.exploiter, strict=True))


@pytest.mark.slow
def test_against_random_in_kuhn_it_is_within_005_of_the_exact_best_response():
    """Against uniform play the best responses get 1/2 and 5/12; OpenSpiel's NashConv of it is 11/12."""
    pytest.importorskip("ray")
    estimate = attack_on("random", steps=12_000)
    assert estimate.exact.best_response == pytest.approx((1 / 2, 5 / 12))
    assert shortfall(estimate) < 0.05
    assert sum(estimate.exact.exploiter) - sum(estimate.exact.baseline) == pytest.approx(11 / 12, abs=0.1)
    assert (
        estimate.nash_conv.low < sum(estimate.exact.exploiter) - sum(estimate.exact.baseline) < estimate.nash_conv.high
    )


def test_without_control_nothing_is_gained():
    pytest.importorskip("ray")
    estimate = attack_on("random", steps=1, control=0.0, matches=200)
    assert estimate.exact.exploiter == pytest.approx(estimate.exact.baseline)
    assert estimate.exact.best_response == pytest.approx(estimate.exact.baseline)
    assert all(gain.low <= 0.0 <= gain.high for gain in estimate.gains)


def test_from_one_seat_only_that_seat_is_attacked():
    pytest.importorskip("ray")
    estimate = attack_on("random", steps=1, seats=(1,), matches=200)
    assert len(estimate.gains) == len(estimate.exact.baseline) == 1
    assert estimate.exact.baseline == pytest.approx((-0.125,))  # uniform Kuhn pays the second seat -1/8
    assert estimate.exploitability.mean == pytest.approx(estimate.gains[0].mean / 2)


@pytest.mark.slow
def test_the_same_seed_trains_the_same_network():
    pytest.importorskip("ray")
    first, again, other = (attack_on("random", steps=1, seed=seed, matches=40) for seed in (5, 5, 6))
    estimates = (first, again, other)
    weights = [torch.cat([p.detach().flatten() for p in e.network.parameters()]) for e in estimates]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    assert first.gains == again.gains


def test_one_batch_of_each_engine_call_serves_many_tables():
    from learners.rllib.attack_env import AttackEnvs

    target = resolve("random", KUHN, Engines())
    sizes = []

    class Counting:
        spec, roles, draw = target.spec, target.roles, target.draw

        class engine:  # noqa: N801
            @staticmethod
            def sample(requests):
                sizes.append(len(requests))
                return target.engine.sample(requests)

    def act(observations):
        mask = observations[:, 13:15]  # after Kuhn's 11 numbers and 2 seats
        policy = mask / mask.sum(1, keepdims=True)
        return np.zeros(len(observations), dtype=np.int64), policy

    tables = AttackEnvs(Counting, (0, 1), None, seed=3, envs=64)
    matches = tables.play(200, act)
    assert max(sizes) >= 32
    assert all(sum(match.rewards) == match.total for match in matches)
    assert {match.total for match in matches} <= {-2.0, -1.0, 1.0, 2.0}  # what Kuhn pays
    assert sum(len(match.decisions) for match in matches) >= 200


def test_networks_and_tables_see_the_same_numbers():
    """A network reads at the table of training what its engine reads in a match."""
    game = make_game("leduc_poker")
    rng = random.Random(0)
    for seed in range(5):
        game.reset(seed)
        while (seat := game.to_act()) is not None:
            expected = game.pyspiel_state().information_state_tensor(seat)
            assert seat_tensor(game).values(seat).tolist() == pytest.approx(expected)
            game.apply(rng.choice(game.legal_actions()))


def test_a_small_game_written_here_is_read_by_the_number_of_its_information_state():
    """Different numbers for different information states of a seat; a game too large to walk has no array."""
    game, seen = make_game(SMALL_DEBATE), {}
    rng = random.Random(0)
    for seed in range(300):
        game.reset(seed)
        while (seat := game.to_act()) is not None:
            array = seat_tensor(game).values(seat)
            assert array.sum() == 1.0
            seen.setdefault((seat, int(array.argmax())), set()).add(game.information_state(seat))
            game.apply(rng.choice(choice_game(game).legal_actions()))
    assert all(len(states) == 1 for states in seen.values())
    assert len(seen) == len({(seat, *states) for (seat, _), states in seen.items()}) > 30
    assert seat_tensor(make_game("simple_negotiation(form=1)")) is None


@pytest.mark.slow
def test_in_a_small_debate_against_random_it_comes_near_the_exact_best_response():
    pytest.importorskip("ray")
    estimate = attack_on("random", steps=20_000, seats=(0, 1), game=make_game(SMALL_DEBATE).spec)
    assert shortfall(estimate) < 0.1


@pytest.fixture(scope="module")
def trained_kuhn(tmp_path_factory):
    """Return a short run of Kuhn poker, whose newest snapshot has learnt something and can still be exploited."""
    from league.cli import main

    path = tmp_path_factory.mktemp("runs") / "kuhn"
    overrides = ["iterations=20", "threads=1", "evaluation.matches=16", "games={kuhn_poker={}}", "model.hidden_size=32"]
    options = [word for override in overrides for word in ("--set", override)]
    assert main(["train", "pocket-returns", "--run-dir", str(path), *options]) == 0
    return path


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("opponent", ["random", "snapshot"])
def test_full_length_exploiters_of_kuhn(opponent, seed, trained_kuhn):
    pytest.importorskip("ray")
    estimate = attack_on("random" if opponent == "random" else trained_kuhn, steps=60_000, seed=seed, matches=4_000)
    assert shortfall(estimate) < 0.05


@pytest.mark.slow
def test_the_gain_grows_with_control_and_comes_near_the_constrained_optimum():
    pytest.importorskip("ray")
    estimates = [attack_on("random", steps=20_000, control=control) for control in (0.0, 0.3, 0.6, 1.0)]
    gains = [sum(estimate.exact.exploiter) - sum(estimate.exact.baseline) for estimate in estimates]
    assert gains == sorted(gains)
    assert gains[0] == pytest.approx(0.0, abs=1e-6)
    assert all(shortfall(estimate) < 0.05 for estimate in estimates)


@pytest.mark.slow
def test_an_attack_within_a_distance_comes_near_its_optimum():
    pytest.importorskip("ray")
    estimate = attack_on("random", steps=30_000, distance=0.3)
    assert shortfall(estimate) < 0.05
    assert sum(estimate.exact.best_response) < 11 / 12 - 0.1
