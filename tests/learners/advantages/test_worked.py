"""Credit rules against numbers worked by hand."""

import pytest
from support.learning.trajectories import credit, trajectory

from learners.advantages import forget_policy
from learners.trajectories import Evidence
from learners.update.critic import critic_targets


def near(numbers):
    """Compare up to rounding, and to the epsilon that is added to a standard deviation."""
    return [pytest.approx(advantages_K, abs=1e-5) for advantages_K in numbers]


def advantages(rule, batch, **settings):
    return credit(rule, batch, **settings)[0]


MARS = [trajectory([0.0, 0.0, 1.0]), trajectory([0.05, -1.0])]


def test_mars_sums_first_and_centres_after():
    """R = [1, 1, 1] and [-0.95, -1]; their mean over turns is 0.21."""
    assert advantages("mars", MARS) == near([[0.79, 0.79, 0.79], [-1.16, -1.21]])


def test_mars_by_trajectory_gives_every_turn_the_whole_return():
    """Whole returns 1 (three turns) and -0.95 (two): the mean over turns is 0.22."""
    assert advantages("mars", MARS, level="trajectory") == near([[0.78] * 3, [-1.17] * 2])


def test_mars_with_one_mean_for_a_game_leaves_each_role_off_zero():
    batch = [trajectory([1.0]), trajectory([0.5]), trajectory([-1.0], role="second"), trajectory([3.0], game="other")]
    assert advantages("mars", batch) == near([[0.25], [-0.25], [0.0], [0.0]])
    assert advantages("mars", batch, baseline="game") == near([[5 / 6], [1 / 3], [-7 / 6], [0.0]])


def test_rae_with_one_baseline_for_a_game_and_policy():
    batch = [trajectory([1.0]), trajectory([-1.0], role="second"), trajectory([4.0], policy="rival")]
    advantages, _, state = credit("rae", batch, baseline="game", fold="trajectory")
    assert advantages == near([[1.0], [-1.05], [4.0]])
    assert state == {"kuhn_poker/main": pytest.approx(0.05 * 0.95 - 0.05), "kuhn_poker/rival": pytest.approx(0.2)}


@pytest.mark.parametrize("rule", ["mars", "comas"])
def test_what_another_policy_earns_in_a_role_is_no_baseline(rule):
    """Main always wins, and the exploiter always loses: neither is ahead of what it earns anyhow."""
    batch = [trajectory([r], policy=p) for r, p in ((1.0, "main"), (-1.0, "probe")) * 4]
    assert advantages(rule, batch) == [[0.0]] * 8
    assert advantages("mars", batch, baseline="game") == [[0.0]] * 8


def test_comas_by_policy():
    """Main earns 1 and 0, of mean 1/2 and spread 1/2; the exploiter -1 and 3, of mean 1 and spread 2."""
    batch = [trajectory([r], policy=p) for r, p in ((1.0, "main"), (-1.0, "probe"), (0.0, "main"), (3.0, "probe"))]
    assert advantages("comas", batch) == near([[1.0], [-1.0], [-1.0], [1.0]])


def test_comas_by_game():
    """One role and policy in two games: 1 and 0 in the one, 5 and 9 in the other, each of spread one z."""
    batch = [trajectory([r], game=g) for r, g in ((1.0, "g"), (5.0, "h"), (0.0, "g"), (9.0, "h"))]
    assert advantages("comas", batch) == near([[1.0], [-1.0], [-1.0], [1.0]])


def test_rae_from_the_first_batchs_mean():
    """B is -0.5, the mean of the first batch, and then 0.95 * -0.5 + 0.05 * 1; by trajectory it moves in between."""
    first, later = [trajectory([r]) for r in (-1.0, 0.0)], [trajectory([1.0])]
    advantages, _, state = credit("rae", first, first="batch")
    assert (advantages, state) == ([[-0.5], [0.5]], {"kuhn_poker/first/main": -0.5})
    advantages, _, state = credit("rae", later, state, first="batch")
    assert (advantages, state) == ([[1.5]], {"kuhn_poker/first/main": pytest.approx(-0.425)})
    by_trajectory, *_ = credit("rae", first, first="batch", fold="trajectory")
    assert by_trajectory == near([[-0.5], [0.0 - (0.95 * -0.5 + 0.05 * -1.0)]])


def test_rae_keeps_baselines_apart_however_the_names_are_spelt():
    """Games "a" and "a/b" with roles "b/c" and "c", and a policy "c/d" beside one of the name "d"."""
    names = [("a", "b/c", "d"), ("a/b", "c", "d"), ("a", "b", "c/d"), ("a%2Fb", "c", "d")]
    batch = [trajectory([float(i)], game=g, role=r, policy=p) for i, (g, r, p) in enumerate(names, start=1)]
    state = credit("rae", batch)[2]
    assert sorted(state.values()) == pytest.approx([0.05, 0.1, 0.15, 0.2])
    assert [a for (a,) in credit("rae", batch, state)[0]] == pytest.approx([0.95, 1.9, 2.85, 3.8])
    assert sorted(forget_policy({"rae": state}, "d")["rae"].values()) == pytest.approx([0.15])
    assert len(forget_policy({"rae": state}, "c/d")["rae"]) == 3


def test_what_rules_remember_of_a_policy_is_forgotten_when_it_begins_anew():
    batch = [trajectory([r], policy=p) for r, p in ((1.0, "main"), (0.8, "probe"))]
    state = {"rae": credit("rae", batch, decay=0.0)[2], "m_grpo": {"seen": {}, "calls": 3}, "of another version": {}}
    assert state["rae"] == {"kuhn_poker/first/main": 1.0, "kuhn_poker/first/probe": 0.8}
    after = forget_policy(state, "probe")
    assert after == state | {"rae": {"kuhn_poker/first/main": 1.0}}
    assert credit("rae", batch, after["rae"])[0] == [[0.0], [0.8]], "a new policy's baseline is 0"


GROUP = [trajectory([r, 0.0]) for r in (1.0, 0.0, 0.0, 1.0)]
STARTS = [*GROUP, *[trajectory([r], deal_seed=1) for r in (4.0, 0.0, 0.0, 0.0)]]


@pytest.mark.parametrize("rule", ["grpo", "flow_grpo", "matpo"])
def test_group_relative_rules_divide_by_the_populations_spread(rule):
    """[1, 0, 0, 1] has mean 1/2 and spread 1/2; [4, 0, 0, 0] has mean 1 and spread sqrt 3."""
    expected = [[1.0] * 2, [-1.0] * 2, [-1.0] * 2, [1.0] * 2, [3**0.5], *[[-(3**-0.5)]] * 3]
    assert advantages(rule, STARTS) == near(expected)


def test_dr_grpo_does_not_divide():
    assert advantages("dr_grpo", STARTS) == [[0.5] * 2, [-0.5] * 2, [-0.5] * 2, [0.5] * 2, [3.0], *[[-1.0]] * 3]


def test_rloo_leaves_the_trajectory_itself_out_of_its_mean():
    """1 - 1/3, 0 - 2/3; 4 - 0, 0 - 4/3."""
    expected = [[2 / 3] * 2, [-2 / 3] * 2, [-2 / 3] * 2, [2 / 3] * 2, [4.0], *[[-4 / 3]] * 3]
    assert advantages("rloo", STARTS) == near(expected)


def test_matpo_hands_the_planners_advantage_to_its_workers():
    planners = [trajectory([r], role="planner", match=11 - r) for r in (1, 0)]
    workers = [
        trajectory([0.3, 0.2], role="worker", match=20, parent=10, root=10, deal_seed=98),
        trajectory([0.9], role="worker", match=21, parent=11, root=11, deal_seed=99),
        trajectory([0.0], role="worker", match=22, parent=21, root=11, deal_seed=99),  # a worker's worker
    ]
    batch = [workers[0], *planners, *workers[1:]]
    assert advantages("matpo", batch) == near([[1.0, 1.0], [1.0], [-1.0], [-1.0], [-1.0]])


@pytest.mark.parametrize(("root", "planners"), [(99, 0), (12, 0), (10, 2)])
def test_matpo_refuses_a_worker_without_exactly_one_planner(root, planners):
    batch = [trajectory([1.0], role=role, match=match) for match in (10, 11) for role in ("planner", "other")]
    batch.append(trajectory([1.0], role="worker", match=12, root=root))
    with pytest.raises(ValueError, match=rf"worker of match 12 .* rollout of match {root},.* {planners} planners"):
        advantages("matpo", batch)


def test_gigpo_adds_what_turns_from_one_state_say():
    """Returns 1 and 0: A^E = 1, -1. From "a", with gamma 1/2: 1/2 and 0, centred 1/4, -1/4; "b", "c" are met once."""
    batch = [trajectory([0.0, 1.0], states="ab"), trajectory([0.0, 0.0], states="ac")]
    assert advantages("gigpo", batch, step_gamma=0.5) == near([[1.25, 1.0], [-1.25, -1.0]])
    assert advantages("gigpo", batch, step_gamma=0.5, step_weight=2.0) == near([[1.5, 1.0], [-1.5, -1.0]])
    assert advantages("gigpo", batch, step_gamma=0.5, step_spread=True) == near([[2.0, 1.0], [-2.0, -1.0]])


def test_gigpo_compares_states_that_one_trajectory_meets_twice():
    """Discounted rewards to go 1/2 and 1 from "a" in one trajectory, 0 in the other: mean 1/2."""
    batch = [trajectory([0.0, 1.0], states="aa"), trajectory([0.0], states="a")]
    assert advantages("gigpo", batch, step_gamma=0.5) == near([[1.0, 1.5], [-1.5]])


def test_mt_grpo_normalises_the_rewards_of_one_index_and_sums_them_after():
    """First turns are paid -1 and 0, second turns 2 and 2, and the third turn is alone: (-1, 1) and then nothing."""
    batch = [trajectory([-1.0, 2.0]), trajectory([0.0, 2.0, 1.0])]
    assert advantages("mt_grpo", batch) == near([[-1.0, 0.0], [1.0, 0.0, 0.0]])
    paid = [trajectory([1.0, 0.0]), trajectory([0.0, 3.0])]
    assert advantages("mt_grpo", paid, gamma=0.5, spread=False) == near([[0.5 - 0.75, -1.5], [-0.5 + 0.75, 1.5]])


def test_mt_grpo_of_two_turns_is_the_papers_turn_and_outcome():
    """Turns are paid 0, 1, 1, 0 and outcomes 1, 1, 0, 0: A_1 = z(turn) + z(outcome) and A_2 = z(outcome)."""
    batch = [trajectory([turn, outcome]) for turn, outcome in ((0.0, 1.0), (1.0, 1.0), (1.0, 0.0), (0.0, 0.0))]
    assert advantages("mt_grpo", batch) == near([[0.0, 1.0], [2.0, 1.0], [0.0, -1.0], [-2.0, -1.0]])


def test_at_grpo_compares_turns_of_one_index():
    """First turns have 1 and 3 to go, second turns 2 and 3; the third is alone."""
    batch = [trajectory([-1.0, 2.0]), trajectory([0.0, 2.0, 1.0])]
    assert advantages("at_grpo", batch) == near([[-1.0, -1.0], [1.0, 1.0, 0.0]])


def by_critic(batch, values, **settings):
    return credit("gae_turn", batch, None, [Evidence(values=values_K) for values_K in values], **settings)[0]


def test_gae_by_hand():
    """V = 1, 2; gamma lambda = 1/4. delta_2 = 4 - 2 = 2, delta_1 = 1 + 1/2 * 2 - 1 = 1, A_1 = 1 + 2/4."""
    batch, values = [trajectory([1.0, 4.0]), trajectory(total=1.0)], [(1.0, 2.0), ()]
    advantages = by_critic(batch, values, gamma=0.5, trace_decay=0.5)
    assert advantages == [[1.5, 2.0], []]
    assert critic_targets(values, advantages) == [[2.5, 4.0], []]


def test_gae_without_values_says_what_to_do():
    with pytest.raises(ValueError, match=r"first in match 3 has none.*critic"):
        advantages("gae_turn", [trajectory([1.0], match=3)])


def test_gae_with_lambda_one_is_the_return_less_the_value():
    batch, values = [trajectory([1.0, -2.0, 0.5])], [(0.25, 0.5, -1.0)]
    advantages = by_critic(batch, values, trace_decay=1.0)
    assert advantages == near([[-0.75, -2.0, 1.5]])
    assert critic_targets(values, advantages) == near([[-0.5, -1.5, 0.5]])


def test_contributions_are_centred_over_the_turns_of_one_game_role_and_policy():
    """Means over mixed turns: 3 in main's first seat, 10 in its second, 0 of the probe's, 7 in another game."""
    batch = [
        trajectory([0.0], policy="probe"),
        trajectory([0.0, 0.0], total=1.0),
        trajectory([0.0], role="second", total=5.0),
        trajectory([0.0], game="leduc_poker"),
        trajectory([0.0], total=4.0),
        trajectory([0.0], role="second", total=3.0),
    ]
    added = [(0.0,), (1.0, 2.0), (9.0,), (7.0,), (6.0,), (11.0,)]
    known = [Evidence(contributions=row) for row in added]
    found = credit("contribution", batch, evidence=known).advantages
    assert found == near([[0.0], [-2.0, -1.0], [-1.0], [0.0], [3.0], [1.0]])
    weighed = credit("contribution", batch, evidence=known, outcome=0.5).advantages  # returns 1, 1, 4 and 5, 3
    assert weighed == near([[0.0], [-2.5, -1.5], [-0.5], [0.0], [4.0], [0.5]])


def test_a_legal_reply_adds_its_part_to_its_turns_contribution():
    """Contributions 0, 0 and 1, the first turn refused, 0.3 for a legal one: 0, 0.3 and 1.3, less their mean 8/15."""
    one = trajectory([0.0, 0.0, 1.0])
    one = one._replace(turns=(one.turns[0]._replace(action=None), *one.turns[1:]))
    evidence = [Evidence(contributions=(0.0, 0.0, 1.0))]
    [row] = credit("contribution", [one], evidence=evidence, legality=0.3).advantages
    assert row == pytest.approx([-8 / 15, 0.3 - 8 / 15, 1.3 - 8 / 15])
