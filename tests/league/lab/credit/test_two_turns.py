"""The bias of credit by turn index where the policy decides when to stop, in closed form.

In ``stop_or_go`` the policy continues with probability p and then says left with probability q; s is what stopping
pays, l and r what left and right pay, and V = q l + (1 − q) r what going on is worth. In softmax parameters the exact
gradient is p (1 − p) (V − s) towards going on and p q (1 − q) (l − r) towards left. ``mt_grpo`` that only centres, in
groups of G, expects

    towards going on   −s p (1 − p) (1 − 1/G)
    towards left       (l − r) q (1 − q) (p − (1 − (1 − p)^G) / G)

since the credit of the second turns of a group adds up to 0 whatever going on is worth.
"""

import itertools
import math

import pytest
from support.learning.trajectories import credit, trajectory

from games.native.stop_or_go import GO, LEFT, PAYS, RIGHT, STOP
from games.registry import make_game
from league.config import RolesConfig
from league.config.credit import CreditConfig
from league.config.load import seat_roles
from league.lab.credit.gradient_accuracy import compare_rules
from league.lab.credit.matches import BatchPlan
from league.theory.exact.exploitability import PolicyTable, exact_form
from league.theory.exact.turn_values import turn_values
from learners.advantages.common import EPSILON

POLICIES = [(0.5, 0.5), (0.3, 0.8), (0.9, 0.1)]
PAID = [tuple(PAYS[action] for action in (STOP, LEFT, RIGHT)), (-0.5, 1.0, 0.25), (0.25, -1.0, 2.0)]
ENDS = (STOP, LEFT, RIGHT)


def expected_by_the_rule(rule, size, policy, paid, **settings):
    """Return the rule's expected gradient towards going on and towards left, over all groups of a size."""
    p, q = policy
    chances = {STOP: 1 - p, LEFT: p * q, RIGHT: p * (1 - q)}
    pays = dict(zip(ENDS, paid, strict=True))
    go, left = [], []
    for group in itertools.product(ENDS, repeat=size):
        batch = [trajectory([pays[end]] if end == STOP else [0.0, pays[end]], match=i) for i, end in enumerate(group)]
        advantages = credit(rule, batch, **settings)[0]
        chance = math.prod(chances[end] for end in group) / size
        pairs = list(zip(group, advantages, strict=True))
        go += [chance * row[0] * ((end != STOP) - p) for end, row in pairs]
        left += [chance * row[1] * ((end == LEFT) - q) for end, row in pairs if end != STOP]
    return math.fsum(go), math.fsum(left)


def exact_gradient(policy, paid):
    (p, q), (s, on_left, on_right) = policy, paid
    return p * (1 - p) * (q * on_left + (1 - q) * on_right - s), p * q * (1 - q) * (on_left - on_right)


def chance_of(count, size, probability):
    return math.comb(size, count) * probability**count * (1 - probability) ** (size - count)


def closed_form(size, policy, paid, spread):
    """Return the rule's expected gradient; with a spread, a sum over how many continue and how many of those go
    left.
    """
    (p, q), (s, on_left, on_right) = policy, paid
    if not spread:
        second = p - (1 - (1 - p) ** size) / size
        return -s * p * (1 - p) * (1 - 1 / size), (on_left - on_right) * q * (1 - q) * second
    first, second = 0.0, 0.0
    for n in range(1, size + 1):
        gap, around = -s * (size - n) / size, abs(s) * math.sqrt(n * (size - n)) / size
        first += chance_of(n, size, p) * n * gap / (around + EPSILON) / size
        for m in range(1, n + 1):
            gap = (on_left - on_right) * (n - m) / n
            around = abs(on_left - on_right) * math.sqrt(m * (n - m)) / n
            second += chance_of(n, size, p) * chance_of(m, n, q) * m * gap / (around + EPSILON) / size
    return first, second


@pytest.mark.parametrize("paid", PAID)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize("size", [2, 3, 5])
def test_what_the_rule_expects_is_the_closed_form(size, spread, policy, paid):
    found = expected_by_the_rule("mt_grpo", size, policy, paid, spread=spread)
    assert found == pytest.approx(closed_form(size, policy, paid, spread), abs=1e-12)


@pytest.mark.parametrize("gamma", [0.0, 0.5])
def test_no_discount_brings_the_value_of_going_on_back(gamma):
    found = expected_by_the_rule("mt_grpo", 4, (0.3, 0.8), PAID[0], spread=False, gamma=gamma)
    assert found == pytest.approx(closed_form(4, (0.3, 0.8), PAID[0], False), abs=1e-12)


@pytest.mark.parametrize("policy", POLICIES)
def test_credit_of_whole_returns_is_the_exact_gradient_less_one_of_the_group(policy):
    """Dr. GRPO loses the share 1/G of both turns alike, and so no direction; ``at_grpo`` centred would, too."""
    found = expected_by_the_rule("dr_grpo", 4, policy, PAID[0])
    assert found[0] == pytest.approx(exact_gradient(policy, PAID[0])[0] * 3 / 4, abs=1e-12)
    assert found[1] == pytest.approx(exact_gradient(policy, PAID[0])[1] * 3 / 4, abs=1e-12)


@pytest.mark.parametrize("policy", POLICIES)
def test_the_microscope_has_the_same_exact_gradient(policy):
    p, q = policy
    form = exact_form("stop_or_go")
    rows = [[1 - p, p] if make_game("stop_or_go").information_state(0) == key else [q, 1 - q] for _, key in form.keys]
    turns = turn_values(form, rows)
    by_state = dict(zip([key for _, key in form.keys], turns.first[:-1], strict=True))
    toward_go, toward_left = exact_gradient(policy, PAID[0])
    assert turns.gradient[by_state["0 "] + 1] == pytest.approx(toward_go, abs=1e-12)
    assert turns.gradient[by_state[f"0 {GO}"]] == pytest.approx(toward_left, abs=1e-12)


@pytest.mark.parametrize(("left", "sign"), [(0.8, -1.0), (0.1, 1.0)])
def test_the_command_sees_a_rule_that_says_stop_whatever_going_on_is_worth(left, sign):
    """Going on is worth 0.8 or 0.1 beside 0.25 for stopping: the rule says stop both times, and is right once."""
    table = PolicyTable("stop_or_go", {(0, "0 "): (0.5, 0.5), (0, f"0 {GO}"): (left, 1 - left)})
    roles = seat_roles(RolesConfig(), make_game("stop_or_go").spec)
    measured, _ = compare_rules(table, roles, CreditConfig(), BatchPlan(batches=4), ["mt_grpo", "at_grpo"])
    first, second = measured[1].turns[0], measured[1].turns[1]
    assert first.cosine.mean == pytest.approx(sign, abs=1e-6)
    assert (first.sign is None) == (sign < 0)
    assert first.bias.mean == pytest.approx(1.0 if sign < 0 else 0.0, abs=1e-6), "the wrong way round is no small bias"
    assert (first.matches is None) == (sign < 0)
    assert second.cosine.mean == pytest.approx(1.0)
    assert measured[2].turns[0].cosine.mean == pytest.approx(1.0)
