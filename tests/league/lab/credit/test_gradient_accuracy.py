"""Rules beside the exact gradient: a table known from outside, measures known in closed form, and their names."""

import math

import numpy as np
import pytest
from support.learning.trajectories import trajectory

from games.aliases import full_name
from games.common.errors import UsageError
from games.registry import make_game
from league.config import RolesConfig
from league.config.credit import CreditConfig
from league.config.load import seat_roles
from league.lab.credit.accuracy import ENOUGH, SURE, Compared, accuracy, batch_gradient, share_of_wrong_signs
from league.lab.credit.gradient_accuracy import EXACT, Play, compare_rules, exact_evidence
from league.lab.credit.matches import BatchPlan, PlayedBatch, play_batches
from league.lab.credit.rules import all_variants, parse_variant
from league.lab.credit.sampled import SampledTurns, _measured
from league.theory.exact.exploitability import PolicyTable, exact_form, uniform_table
from league.theory.exact.turn_values import TurnValues, turn_values

# Cosine and bias at uniform play, 512 matches in groups of 8, as another program found them.
RULES = ("mars", "rloo", "grpo", "gae_turn:trace_decay=0", EXACT)
KNOWN = {
    "kuhn_poker": ((0.95, 0.96, 0.94, 0.97, 0.98), 0.20),
    "leduc_poker": ((0.49, 0.51, 0.56, 0.65, 0.83), 0.15),
    "small_sheriff": ((0.85, 0.83, 0.63, 0.94, 0.99), 0.67),
}


def roles_of(game):
    return seat_roles(RolesConfig(), make_game(game).spec)


def compare(name, rules=(), **draw):
    game = full_name(name)
    return compare_rules(uniform_table(game), roles_of(game), CreditConfig(), BatchPlan(**draw), rules)


@pytest.mark.parametrize("game", KNOWN)
def test_the_rules_come_as_near_as_another_program_found(game):
    cosines, bias = KNOWN[game]
    measured = compare(game, RULES[:-1], batches=6)[0]
    found = {rule.rule: rule.overall for rule in measured}
    for rule, cosine in zip(RULES, cosines, strict=True):
        low, high = found[rule].cosine.low, found[rule].cosine.high
        assert low - 0.03 <= cosine <= high + 0.03, rule
        if rule != "grpo":
            assert found[rule].bias.low < 0.1, rule
    assert found["grpo"].bias.low <= bias <= found["grpo"].bias.high
    assert found[EXACT].wrong_sign == 0.0
    if game == "small_sheriff":  # no number of matches brings grpo there
        assert found["grpo"].bias.low > 0.5
        assert found["grpo"].matches is None
        assert set(measured[0].roles) == {"smuggler", "sheriff"}
        assert set(measured[0].turns) == {0, 1, 2}


def made_up(cosine, noise, batches=4000, size=20, seed=0):
    """Return gradients whose mean has a cosine with the exact one, and whose noise is this many times that mean."""
    rng = np.random.default_rng(seed)
    exact, across = np.zeros(size), np.zeros(size)
    exact[0], across[1] = 2.0, 1.0
    mean = 3.0 * (cosine * exact / 2.0 + math.sqrt(1 - cosine**2) * across)
    return Compared(mean + rng.normal(0.0, 3.0 * noise / math.sqrt(size), (batches, size)), exact, 100)


@pytest.mark.parametrize(("cosine", "noise"), [(1.0, 0.5), (0.96, 1.0), (0.6, 2.0)])
def test_bias_and_noise_are_those_that_the_gradients_were_made_with(cosine, noise):
    found = accuracy(made_up(cosine, noise), None)
    assert found.bias.mean == pytest.approx(math.sqrt(1 - cosine**2), abs=0.05)
    assert found.noise == pytest.approx(noise, rel=0.05)
    assert found.cosine.mean == pytest.approx(cosine / math.sqrt(1 + noise**2), abs=0.02)


def test_a_gradient_that_points_away_is_all_bias_and_no_number_of_matches_helps():
    away = accuracy(made_up(0.96, 0.3)._replace(exact=-made_up(0.96, 0.3).exact), None)
    assert away.cosine.mean < -0.9
    assert away.bias.mean == away.bias.low == 1.0
    assert away.matches is away.sign is None


def test_as_many_matches_as_it_says_make_a_step_go_uphill_as_often():
    """A noise of 8 times the mean in 20 directions: 100 matches go uphill in 2 of 3 cases, the number said in 95 %."""
    needed = accuracy(made_up(0.6, 8.0), None).sign
    assert needed > 100
    enough = made_up(0.6, 8.0 * math.sqrt(100 / needed), seed=1)
    assert (enough.gradients @ enough.exact > 0.0).mean() == pytest.approx(SURE, abs=0.02)


def test_as_many_matches_as_it_says_make_the_cosine_that_is_enough():
    needed = accuracy(made_up(0.96, 1.0), None).matches
    enough = accuracy(made_up(0.96, math.sqrt(100 / needed), seed=1), None)
    assert enough.cosine.mean == pytest.approx(ENOUGH, abs=0.01)
    assert accuracy(made_up(0.6, 0.1), None).matches is None


def test_the_biass_interval_holds_the_truth_as_often_as_it_says():
    """Twelve batches each time, some hundred times; a jackknife is a little too sure of itself."""
    truth, held = 0.5, 0
    for seed in range(200):
        bias = accuracy(made_up(math.sqrt(1 - truth**2), 1.0, batches=12, seed=seed), None).bias
        held += bias.low <= truth <= bias.high
    assert held > 170


def test_a_rule_that_gives_no_credit_has_no_direction():
    assert accuracy(Compared(np.zeros((4, 3)), np.ones(3), 8), 0.0) == (None,) * 6
    cory = compare("kuhn_poker", ["cory"], batches=2, batch=16)[0][1]  # what the seats of a zero-sum game earn together
    assert cory.overall.cosine is None


def test_signs_are_wrong_where_they_differ_and_the_exact_advantage_has_one():
    assert share_of_wrong_signs(np.array([1.0, -1.0, 0.0, 5.0]), np.array([2.0, 3.0, 1.0, 0.0])) == pytest.approx(1 / 3)
    assert share_of_wrong_signs(np.array([1.0]), np.array([0.0])) is None


def test_a_batch_of_every_history_has_the_exact_gradient_under_returns_and_under_advantages():
    """In Kuhn poker with the chance of each history as its weight: the policy gradient theorem."""
    form = exact_form("kuhn_poker")
    behaviour = [np.random.default_rng(7).dirichlet(np.ones(len(ids))).tolist() for ids in form.legal]
    turns = turn_values(form, behaviour)
    parents = {sequence: index for index, first in enumerate(form.first) for sequence in (first, first + 1)}
    reach = form.chance * form.plan(behaviour)[form.last].prod(axis=1)
    states, actions, weights, returns = [], [], [], []
    for last, chance, paid in zip(form.last, reach, form.returns, strict=True):
        for seat in range(2):
            sequence = int(last[seat])
            while sequence in parents:
                states.append(parents[sequence])
                actions.append(turns.first[states[-1]] + sequence - form.first[states[-1]])
                weights.append(chance)
                returns.append(paid[seat])
                sequence = form.parent[states[-1]]
    every = PlayedBatch(1, [], np.array(states), np.array(actions))
    for credit in (np.array(returns), turns.advantages[actions]):
        assert batch_gradient(turns, every, np.array(weights) * credit) == pytest.approx(turns.gradient)


def test_matches_are_played_as_the_table_says():
    table = PolicyTable("kuhn_poker", dict.fromkeys(exact_form("kuhn_poker").keys, (0.2, 0.8)))
    batch = play_batches(table, roles_of("kuhn_poker"), exact_form("kuhn_poker").keys, BatchPlan(256, 8, 1))[0]
    assert np.mean(batch.actions % 2) == pytest.approx(0.8, abs=0.06)
    assert len(batch.states) == sum(len(t.turns) for t in batch.trajectories) == len(batch.roles)
    keys = [exact_form("kuhn_poker").keys[state] for state in batch.states]
    assert [key[0] for key in keys] == [turn.seat for t in batch.trajectories for turn in t.turns]
    assert len({t.deal_seed for t in batch.trajectories}) == 256 // 8
    again = play_batches(table, roles_of("kuhn_poker"), exact_form("kuhn_poker").keys, BatchPlan(256, 8, 1))[0]
    assert again.actions.tolist() == batch.actions.tolist()


def test_learned_values_reach_half_of_what_exact_ones_gain_in_leduc():
    rows = ["rae", "gae_turn:trace_decay=0", "gae_turn:trace_decay=0@archer"]
    found, _ = compare("leduc_poker", rows, batches=3, learned=2048)
    default, exact, learned = [rule.overall.cosine.mean for rule in found[1:]]
    assert learned - default >= (exact - default) / 2
    assert [rule.given_values for rule in found[1:]] == [False, True, False]


def test_a_team_is_measured_with_sequential_advantages_and_with_continuations():
    rows = ["rae", "contribution@sequential", "gae_turn:trace_decay=0@continuations:count=2"]
    found, _ = compare("tiny_hanabi", rows, batch=32, batches=3, learned=512)
    assert [rule.rule for rule in found] == [EXACT, *rows]
    assert all(rule.overall.cosine.mean > 0.4 for rule in found)


def test_three_seats_are_measured_too():
    found, left_out = compare("kuhn_poker(players=3)", batch=128, batches=3)
    measured = {rule.rule: rule.overall for rule in found}
    assert measured[EXACT].cosine.mean > 0.8
    assert "two seats" in left_out["advantage_alignment"]
    assert "malt" in left_out
    assert len(next(rule for rule in found if rule.rule == EXACT).roles) == len(
        {r.name for r in roles_of("kuhn_poker(players=3)")}
    )


def test_rules_are_written_with_settings_of_their_own():
    credit = CreditConfig(rae={"decay": 0.5})
    assert parse_variant("rae", credit).settings.decay == 0.5
    assert parse_variant("rae:decay=0.25,fold=trajectory", credit).settings.model_dump()["decay"] == 0.25
    names = [variant.text for variant in all_variants(credit)]
    assert {"rae", "gae_turn", "gae_turn:trace_decay=0"} <= set(names)


@pytest.mark.parametrize(
    ("rule", "draw", "words"),
    [
        ("malt", {}, "whole trees"),
        ("regret", {}, "not the return"),
        ("spo", {}, "a judge prefers"),
        ("nosuch", {}, "no credit rule named 'nosuch'"),
        ("rae:deca=1", {}, "no setting of rae named 'deca'"),
        ("rae:decay=3", {}, "less than or equal to 1"),
        ("rae:decay", {}, "NAME:KEY=VALUE"),
        ("contribution", {}, "NAME@ESTIMATOR"),
        ("contribution@archer", {}, "does not take the values"),
        ("gae_turn@critic", {}, "reads the policies of a run in training"),
        ("contribution@sequential", {}, "not paid alike"),
        ("gae_turn@archr", {}, "no value estimator named 'archr'"),
        ("gae_turn@archer:shrinc=1", {}, "no setting of archer named 'shrinc'"),
        ("grpo", {"group": 1}, "--group 1"),
        ("rae", {"batch": 12}, "not a multiple"),
    ],
)
def test_what_cannot_be_measured_is_said_in_a_sentence(rule, draw, words):
    with pytest.raises(UsageError, match=words):
        compare("kuhn_poker", [rule], **draw)


def test_the_exact_value_of_a_turn_is_what_is_still_to_come():
    """A seat that was paid 1 and then 2, in halves, has that much less to expect; states are in no order."""
    count = 5
    worth = np.array([10.0, 20.0, 30.0, 40.0, 50.0])
    none = np.zeros(count)
    turns = TurnValues(np.zeros(count, int), np.zeros(count, int), np.arange(count + 1), none, none, worth, none)
    paid = [trajectory([1.0, 2.0, 4.0]), trajectory([], match=1), trajectory([8.0, 0.5], match=2, seat=1)]
    batch = PlayedBatch(3, paid, np.array([3, 0, 4, 2, 1]), np.arange(count))
    found = exact_evidence(Play(turns, (), [batch], 2.0), batch)
    assert [one.values for one in found] == [(20.0, 5.0 - 1.0, 25.0 - 3.0), (), (15.0, 10.0 - 8.0)]


def test_continuations_are_compared_without_the_square_of_one_estimates_noise():
    """Σ a A / sqrt(Σ a² Σ A'A''), over all turns, by role and by turn, which lie in no order."""
    rng = np.random.default_rng(2)
    first, second, given = rng.normal(size=(3, 90)) + rng.normal(size=90)
    roles, turns = rng.choice(["b", "a"], 90).tolist(), rng.choice([2, 0], 90).tolist()
    errors = np.full(90, 0.4)
    found = _measured("rule", SampledTurns(list(range(90)), first, second, errors, roles, turns), given, first)
    for measured, part in [
        (found.overall, range(90)),
        *((found.roles[role], [i for i in range(90) if roles[i] == role]) for role in ("a", "b")),
        *((found.turns[turn], [i for i in range(90) if turns[i] == turn]) for turn in (0, 2)),
    ]:
        products = sum(given[i] * first[i] for i in part)
        lengths = sum(given[i] ** 2 for i in part) * sum(first[i] * second[i] for i in part)
        assert measured.cosine.mean == pytest.approx(products / math.sqrt(lengths))
        sure = [i for i in part if abs(first[i] + second[i]) / 2 > 0.8]  # two standard errors
        assert measured.wrong_sign == pytest.approx(np.mean([given[i] * (first[i] + second[i]) < 0 for i in sure]))
