"""SPO: with a judge who goes round in a circle the mixture is uniform; a score fitted to the same judge collapses."""

import random
from functools import cache
from math import exp, log

import pytest
from support.learning.trajectories import credit, trajectory

from games.registry import make_game
from learners.advantages import RULES
from learners.advantages.rule import Need
from learners.groups import pairs_within_groups, win_shares

THROWS = ("rock", "paper", "scissors")
FIRST = (0.6, 0.3, 0.1)  # the policy that learning begins with


def thrown(throw):
    match = make_game("throw")
    match.apply(throw)
    return match


BEATS = {(a, b): thrown(a).preference(thrown(b), 0) for a in THROWS for b in THROWS}


def test_the_judge_of_throw_goes_round_in_a_circle():
    assert [BEATS["paper", "rock"], BEATS["scissors", "paper"], BEATS["rock", "scissors"]] == [1.0] * 3
    assert all(BEATS[a, b] + BEATS[b, a] == 1.0 for a in THROWS for b in THROWS)


def test_shares_and_advantages_by_hand():
    """Rock, rock and paper: each rock draws one and loses one, 1/4; paper wins both, 1."""
    batch = [trajectory([0.0], match=i) for i in range(3)]
    throws = ("rock", "rock", "paper")
    pairs = pairs_within_groups(batch)
    assert pairs == [(0, 1), (0, 2), (1, 2)]
    shares = win_shares({(i, j): BEATS[throws[i], throws[j]] for i, j in pairs})
    assert shares == {0: 0.25, 1: 0.25, 2: 1.0}
    batch = [one._replace(preferred=shares[i]) for i, one in enumerate(batch)]
    advantages, weights, _ = credit("spo", batch)
    assert advantages == [[-0.5], [-0.5], [1.0]]
    assert weights == [1.0] * 3


def test_only_matches_of_one_start_are_compared():
    batch = [trajectory([0.0], deal_seed=i % 2, match=i) for i in range(4)]
    assert pairs_within_groups(batch) == [(0, 2), (1, 3)]


def test_it_needs_groups_and_a_judge():
    assert RULES["spo"].needs == {Need.GROUPS, Need.PREFERENCES}
    with pytest.raises(ValueError, match="not compared by a judge"):
        credit("spo", [trajectory([1.0]), trajectory([0.0], match=1)])


def softmax(logits):
    weights = [exp(value - max(logits)) for value in logits]
    return [weight / sum(weights) for weight in weights]


def learned(rewarded, steps, rate):
    """Return the mean and the last policy of a table that learns by its expected policy gradient.

    ``rewarded(policy)`` is the expected reward of each throw. The gradient is natural: logits move by the reward.
    """
    logits, total = [log(p) for p in FIRST], [0.0] * 3
    for _ in range(steps):
        policy = softmax(logits)
        total = [t + p for t, p in zip(total, policy, strict=True)]
        logits = [value + rate * reward for value, reward in zip(logits, rewarded(policy), strict=True)]
    return [t / steps for t in total], policy


def least_preferred(policy):
    """Return the probability of being preferred to the throw that beats a policy best."""
    return min(sum(p * BEATS[mine, other] for mine, p in zip(THROWS, policy, strict=True)) for other in THROWS)


def expected_spo(policy):
    """Return the rule's own advantage of each throw, in expectation over one other match of its group."""
    found = []
    for mine in THROWS:
        share = sum(p * BEATS[mine, other] for other, p in zip(THROWS, policy, strict=True))
        found.append(credit("spo", [trajectory([0.0])._replace(preferred=share)] * 2)[0][0][0])
    return found


@cache
def bradley_terry(policy):
    """Return the scores that are most likely under the judge's preferences between two throws of a policy."""
    scores = [0.0] * 3
    for _ in range(20_000):
        gradient = [0.0] * 3
        for i, a in enumerate(THROWS):
            for j, b in enumerate(THROWS):
                expected = 1.0 / (1.0 + exp(scores[j] - scores[i]))
                gradient[i] += policy[i] * policy[j] * (BEATS[a, b] - expected)
        scores = [score + g for score, g in zip(scores, gradient, strict=True)]
    return [score - sum(scores) / 3 for score in scores]


def test_the_mixture_of_a_circular_judge_is_uniform():
    mixture, _ = learned(expected_spo, 5_000, 0.04)
    assert mixture == pytest.approx([1 / 3] * 3, abs=0.05)
    assert least_preferred(mixture) > 0.45


def test_a_score_fitted_to_the_same_judge_collapses():
    scores = bradley_terry(FIRST)
    assert max(scores) - min(scores) > 0.5, "one throw is best, though none is"
    _, last = learned(lambda _policy: scores, 5_000, 0.04)
    assert max(last) > 0.99
    assert least_preferred(last) < 0.01, "and the throw that beats it is preferred always"


def from_samples(seed, advantages_of, steps=4000):
    """Return the mean and the last policy that groups of eight throws teach, as a run has them."""
    rng, logits, total = random.Random(seed), [log(p) for p in FIRST], [0.0] * 3
    for _ in range(steps):
        policy = softmax(logits)
        total = [t + p for t, p in zip(total, policy, strict=True)]
        throws = rng.choices(THROWS, policy, k=16)
        for throw, advantage in zip(throws, advantages_of(throws), strict=True):
            for k, other in enumerate(THROWS):
                logits[k] += 0.1 * advantage * ((throw == other) - policy[k]) / 16
    return [t / steps for t in total], softmax(logits)


def by_preference(throws):
    batch = [trajectory([0.0], deal_seed=i // 8, match=i) for i in range(16)]
    pairs = pairs_within_groups(batch)
    shares = win_shares({(i, j): BEATS[throws[i], throws[j]] for i, j in pairs})
    return [row[0] for row in credit("spo", [one._replace(preferred=shares[i]) for i, one in enumerate(batch)])[0]]


def by_score(throws):
    scores = dict(zip(THROWS, bradley_terry(FIRST), strict=True))
    batch = [trajectory([scores[throw]], deal_seed=i // 8, match=i) for i, throw in enumerate(throws)]
    return [row[0] for row in credit("dr_grpo", batch)[0]]


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(5))
def test_from_samples_preferences_mix_and_a_score_collapses(seed):
    mixture, _ = from_samples(seed, by_preference)
    assert mixture == pytest.approx([1 / 3] * 3, abs=0.05)
    _, last = from_samples(seed, by_score)
    assert max(last) > 0.99
    assert least_preferred(last) < 0.01
