"""The credit rule ``regret``: its policy gradient is the regret loss's, and it learns to regret less."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.learning.trajectories import credit, trajectory
from support.models.pocket import pocket

from arena.records import MatchRequest, ReplyRequest
from arena.samplers.torch_lm import TorchLM
from arena.scheduler import play
from games.common.errors import UsageError
from games.registry import make_game
from league.config import RolesConfig
from league.config.context import run_context
from league.config.load import load, seat_roles
from league.training.evidence.source import AfterPlay
from league.training.evidence.sources import evidence_from_play
from learners.advantages.regret import loss
from learners.record_store.codec import from_record, to_record
from learners.trajectories import Counterfactuals, Evidence, to_trajectories
from learners.trajectory_buffer import TrajectoryBuffer

GAME = "repeated_game(stage_game=matrix_mp(),num_repetitions=8)"


def match(rewards, expected, best_fixed, **fields):
    """Return a trajectory and its evidence."""
    return trajectory(rewards)._replace(**fields), Evidence(
        counterfactuals=Counterfactuals(tuple(expected), best_fixed)
    )


def credited(matches, focus=0.0):
    batch, evidence = map(list, zip(*matches, strict=True))
    return credit("regret", batch, None, evidence, focus=focus)[0]


def test_two_matches_by_hand():
    """R = 3 - (1 + 0) = 2 and 1 - (1 + 1) = -1, so c = 2 * 2 and 0: the second did better than any one action."""
    batch = [match([2.0, -1.0], [1.0, 0.0], 3.0), match([0.0, 2.0], [1.0, 1.0], 1.0)]
    assert credited(batch) == [[4.0, -4.0], [0.0, 0.0]]


def test_focus_dwells_on_the_worst_match():
    """R = 1 and 2, focus ln 2: s = 1/3 and 2/3, L = 1/3 + 8/3 = 3, c = 2/3 (2 - 2 ln 2) and 4/3 (4 + ln 2)."""
    batch = [match([1.0], [0.0], 1.0), match([1.0], [0.0], 2.0)]
    two = float(np.log(2.0))
    (first,), (second,) = credited(batch, focus=two)
    assert first == pytest.approx(2 / 3 * (2 - 2 * two))
    assert second == pytest.approx(4 / 3 * (4 + two))
    assert loss(np.array([1.0, 2.0]), two) == pytest.approx(3.0)
    assert loss(np.array([1.0, 2.0]), 500.0) == pytest.approx(4.0)  # the paper's limit: the worst alone


def test_each_policy_in_a_role_has_a_loss_of_its_own():
    """The two matches above, one of each policy: alone, s is 1 and c is 2 R, whatever the other policy regrets."""
    batch = [match([1.0], [0.0], 1.0), match([1.0], [0.0], 2.0, policy="probe")]
    assert credited(batch, focus=float(np.log(2.0))) == [[2.0], [4.0]]


def softmax(logits):
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.7, 3.0]), st.integers(1, 4), st.integers(2, 3))
def test_the_expected_policy_gradient_is_that_of_the_loss(seed, focus, matches, actions):
    """Central differences of the loss of a tabular softmax policy, which reads one of three things in each round."""
    generator = np.random.default_rng(seed)
    logits = generator.normal(size=(3, actions))
    payoffs = generator.normal(size=(matches, 5, actions))  # [N, T, A]
    read = generator.integers(3, size=(matches, 5))  # [N, T]

    def regrets(table):
        return payoffs.sum(axis=1).max(axis=1) - (softmax(table)[read] * payoffs).sum(axis=(1, 2))

    differences, step = np.zeros_like(logits), 1e-5
    for index in np.ndindex(*logits.shape):
        moved = np.zeros_like(logits)
        moved[index] = step
        differences[index] = (loss(regrets(logits + moved), focus) - loss(regrets(logits - moved), focus)) / (2 * step)

    chances = softmax(logits)
    expected, best = (chances[read] * payoffs).sum(axis=2), payoffs.sum(axis=1).max(axis=1)
    gradient = np.zeros_like(logits)
    for action in range(actions):  # what the rule gives to every turn in which this one was drawn
        batch = [match(payoffs[i, :, action], expected[i], best[i]) for i in range(matches)]
        advantages = np.array(credited(batch, focus))  # [N, T]
        score = np.eye(actions)[action] - chances  # of log p(action)  # [3, A]
        np.add.at(gradient, read, (chances[read][..., action] * advantages)[..., None] * score[read] / matches)
    np.testing.assert_allclose(-gradient, differences, atol=1e-6)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 2.0]))
def test_neither_order_nor_another_role_matters(seed, focus):
    generator = np.random.default_rng(seed)
    draws = [generator.normal(size=4) for _ in range(5)]
    batch = [match(d[:2], d[2:], float(d.max()), role=f"seat {i % 2}") for i, d in enumerate(draws)]
    given_ = credited(batch, focus)
    order = generator.permutation(5)
    assert credited([batch[i] for i in order], focus) == [pytest.approx(given_[i]) for i in order]
    even = [both for both in batch if both[0].role == "seat 0"]
    assert credited(even, focus) == [pytest.approx(given_[i]) for i in (0, 2, 4)]


def test_a_trajectory_that_does_not_know_is_refused():
    with pytest.raises(ValueError, match="what other actions would have paid"):
        credited([(trajectory([1.0]), Evidence())])


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """Return matches of a small model with itself, the engine, the roles, trajectories and their evidence."""
    path = tmp_path_factory.mktemp("rule") / "config.toml"
    path.write_text(f'[games."{GAME}"]\nmatches = 8\n[credit]\nrule = "regret"\n')
    spec, lm = make_game(GAME).spec, pocket()
    roles, engine = seat_roles(RolesConfig(), spec), TorchLM()
    engine.add("main", lm)
    requests = [MatchRequest(i, GAME, i, i, ("main", "main"), (True, True)) for i in range(8)]
    episodes = play(
        requests, roles_of={GAME: roles}.__getitem__, engine_of=lambda _: engine, make_game=make_game, in_flight=8
    )
    plain = to_trajectories(episodes, {GAME: roles}.__getitem__, {GAME: 4.0})
    policies = {"main": SimpleNamespace(lm=lm)}
    context = replace(run_context(load(str(path), []), path.parent), scales={GAME: 4.0})
    play_of = AfterPlay(plain, {episode.request.index: episode for episode in episodes}, policies)
    filled = evidence_from_play(context, play_of)
    return episodes, engine, roles, list(zip(plain, filled, strict=True))


def test_what_other_actions_would_have_paid_is_filled_in(played):
    """Matching pennies pays the first seat 1 for matching and costs it 1 otherwise; here divided by 4."""
    episodes, engine, roles, filled = played
    assert len(filled) == 16
    for member, evidence in filled:
        facts = evidence.counterfactuals
        opposing = [t.action for t in episodes[member.match].turns if t.seat != member.seat]
        side = 1.0 if member.seat == 0 else -1.0
        payoffs = [[side * (0.25 if a == other else -0.25) for a in ("heads", "tails")] for other in opposing]
        chances = [asked_again(engine, roles[member.seat], turn) for turn in member.turns]
        assert facts.expected == pytest.approx((np.array(payoffs) * chances).sum(axis=1), abs=1e-5)
        assert facts.best_fixed == pytest.approx(np.sum(payoffs, axis=0).max())
        earned = [row[turn.legal.index(turn.action)] for row, turn in zip(payoffs, member.turns, strict=True)]
        assert member.rewards == pytest.approx(earned)


def asked_again(engine, role, turn):
    request = ReplyRequest("main", role, make_game(GAME), turn.observation, turn.legal, (), None)
    return engine.distributions([request])[0]


def test_what_is_filled_in_survives_a_resume(played):
    *_, filled = played
    batch, evidence = map(list, zip(*filled, strict=True))
    gathered = TrajectoryBuffer()
    gathered.add(batch, evidence, credited(filled), [1.0] * len(batch))
    again = TrajectoryBuffer.from_json(gathered.to_json())
    assert again == gathered
    assert isinstance(again.evidence[0].counterfactuals, Counterfactuals)
    stored = [from_record(*to_record(*both)[-4:]) for both in filled]
    assert stored == filled
    assert isinstance(stored[0][1].counterfactuals, Counterfactuals)


@pytest.mark.parametrize(
    ("game", "more", "said"),
    [
        ("kuhn_poker", [], "it is only for repeated matrix games, not for kuhn_poker"),
        (
            GAME,
            ["roles.reply=free"],
            "needs the probability of every reply, but first, second of .* in free text",
        ),
    ],
)
def test_what_it_cannot_credit_is_refused_before_a_run(tmp_path, game, more, said):
    path = tmp_path / "config.toml"
    path.write_text(f'[games."{game}"]\nmatches = 8\n[credit]\nrule = "regret"\n')
    with pytest.raises(UsageError, match=said):
        load(str(path), more)


CONFIG = f"""
threads = 1
iterations = 60
snapshot_every = 60
[games."{GAME}"]
matches = 256
[credit]
rule = "regret"
[objective]
entropy = 0.05
entropy_end = 0.005
[optimizer]
learning_rate = 1e-3
inner_steps = 2
[matchmaking]
self_play = 0.0
opponents = 4  # both sides in every update: one alone would teach to play one side always
guests = ["always:heads", "always:tails"]
[model]
hidden_size = 64
intermediate_size = 128
vocabulary = 512
[evaluation]
exact = false
matches = 0
"""


def league(*words):
    command = [sys.executable, "-m", "league", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def mean_regret(player):
    """Return the external regret a round, the mean over both roles and both opponents."""
    reports = [
        json.loads(league("regret", player, opponent, "--game", GAME, "--matches", "400", "--json"))["roles"]
        for opponent in ("always:heads", "always:tails")
    ]
    return fmean(role["external"] for report in reports for role in report.values())


@pytest.mark.slow
def test_it_learns_to_regret_less_than_half_as_much(tmp_path: Path) -> None:
    """Which side the opponent always takes shows only after a round: whoever copies then regrets 2 * 1/2 in 8 rounds,
    which is 1/8 a round and the least possible; uniform play regrets 1. Three seeds, Student's interval of their mean.
    """
    config = tmp_path / "regret.toml"
    config.write_text(CONFIG)
    before, after = [], []
    for seed in range(3):
        run = str(tmp_path / str(seed))
        league("train", str(config), "--seed", str(seed), "--run-dir", run)
        before.append(mean_regret(f"{run}@main-000000"))
        after.append(mean_regret(run))
    half = 4.303 * stdev(after) / 3**0.5  # t with two degrees of freedom
    assert fmean(after) + half < min(before) / 2
