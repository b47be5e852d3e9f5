"""R-NaD's rewards: what leaving the magnet costs, checked against log-probs that the model itself gives."""

from collections import defaultdict
from math import fsum, log

import pytest
import torch
from support.matches.kuhn import CHOICE, kuhn_pocket, self_play

from league.config import RunConfig
from league.training.evidence.regularised_rewards import log_ratios, regularise
from learners.update.policy import Policy

ETA = 0.4


@pytest.fixture(scope="module")
def lm():
    return kuhn_pocket(sharpness=1.0)


@pytest.fixture(scope="module")
def trajectories(lm):
    return self_play(lm, 40, CHOICE)


def policy(lm):
    return Policy("main", lm, weight_decay=0.0, magnet=True)


def config(games=("kuhn_poker",), **objective):
    settings = {"magnet": ETA, "magnet_rule": "rewards", "magnet_uniform": 0.0} | objective
    return RunConfig(iterations=5, games={game: {} for game in games}, objective=settings)


def probability(lm, turn):
    tries = [lm.trie(turn.legal)]
    (chunk,) = lm.plan_choice([turn.trace.prompt_ids], tries, 8192)
    with torch.no_grad():
        logprobs = lm.choice_logprobs(chunk, tries, turn.trace.temperature).replies[0]
    return logprobs[turn.legal.index(turn.reply)].exp().item()


def test_at_the_magnet_nothing_changes(lm, trajectories):
    for before, after in zip(trajectories, regularise(config(), {"main": policy(lm)}, trajectories, 1), strict=True):
        assert after.match_return == pytest.approx(before.match_return, abs=1e-5)
        assert after.rewards == pytest.approx(before.rewards, abs=1e-5)


def test_without_the_rule_trajectories_are_left_alone(lm, trajectories):
    assert regularise(config(magnet_rule="loss"), {"main": policy(lm)}, trajectories, 1) is trajectories


def test_log_ratios_are_those_of_the_replies_under_both_policies(lm, trajectories):
    """The magnet has other weights, a tenth of it is uniform."""
    other = kuhn_pocket(seed=3, sharpness=1.0)
    held = policy(lm)
    held.magnet = other
    for trajectory, ratios in zip(trajectories, log_ratios({"main": held}, trajectories, 0.1), strict=True):
        expected = [
            log(probability(lm, turn)) - log(0.9 * probability(other, turn) + 0.1 / len(turn.legal))
            for turn in trajectory.turns
        ]
        assert ratios == pytest.approx(expected, abs=1e-4)


def test_a_seat_pays_for_its_own_replies_and_is_paid_for_the_others(lm, trajectories):
    held = policy(lm)
    held.magnet = kuhn_pocket(seed=3, sharpness=1.0)
    ratios = log_ratios({"main": held}, trajectories, 0.0)
    after = regularise(config(), {"main": held}, trajectories, 1)
    before_by_match, after_by_match = defaultdict(list), defaultdict(list)
    for i, (old, new) in enumerate(zip(trajectories, after, strict=True)):
        other = next(j for j, t in enumerate(trajectories) if t.match == old.match and t.seat != old.seat)
        change = -ETA * fsum(ratios[i]) + ETA * fsum(ratios[other])
        assert new.match_return - old.match_return == pytest.approx(change, abs=1e-5)
        assert fsum(new.rewards) == pytest.approx(new.match_return, abs=1e-5)
        assert new.rewards[:-1] == pytest.approx(
            [r - ETA * ratio for r, ratio in zip(old.rewards, ratios[i], strict=True)][:-1]
        )
        before_by_match[old.match].append(old.match_return)
        after_by_match[old.match].append(new.match_return)
    assert any(abs(new.match_return - old.match_return) > 0.05 for old, new in zip(trajectories, after, strict=True))
    for match, returns in after_by_match.items():
        assert fsum(returns) == pytest.approx(fsum(before_by_match[match]), abs=1e-5), "a zero-sum game stays one"


def test_at_a_table_of_three_each_seat_gets_half_of_what_the_others_pay(lm, trajectories):
    """What two seats replied stands for three: in threes, mixed between matches, they are three-handed Kuhn poker."""
    game, held = "kuhn_poker(players=3)", policy(lm)
    held.magnet = kuhn_pocket(seed=3, sharpness=1.0)
    seated = [
        t._replace(game=game, match=i % 20, seat=i // 20, players=("main",) * 3)
        for i, t in enumerate([t for t in trajectories if t.turns][:60])
    ]
    ratios = [fsum(row) for row in log_ratios({"main": held}, seated, 0.0)]
    after = regularise(config(games={game: {}}), {"main": held}, seated, 1)
    changes = [new.match_return - old.match_return for new, old in zip(after, seated, strict=True)]
    for match in range(20):
        mine = [match, match + 20, match + 40]
        assert fsum(changes[i] for i in mine) == pytest.approx(0.0, abs=1e-9)
        for i in mine:
            others = fsum(ratios[j] for j in mine if j != i)
            assert changes[i] == pytest.approx(ETA * (others / 2 - ratios[i]))
