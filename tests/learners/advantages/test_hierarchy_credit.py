"""Credit of whole families of episodes: what matches opened belongs to the rollout that began them, policies apart."""

from types import SimpleNamespace

import pytest
from support.learning.trajectories import credit, turn

from arena.records import EndReason, Episode, MatchRequest, TokenTrace
from learners.batching import to_batch
from learners.normalisation import Normalisation, count_rollout_tokens, token_weights
from learners.trajectories import Evidence, to_trajectories

ROLES = {"plan": "planner", "ask": "worker", "look": "searcher"}
SCALES = {"plan": 0.5, "ask": 0.5, "look": 1.0}


def played(game, policy, total, tokens, *children, index=0, deal_seed=7):
    """Return an episode of one seat with a turn of free text for each number of tokens; the last is paid."""
    traces = [TokenTrace(policy, (1,), tuple(range(count)), (-0.1,) * count, None) for count in tokens]
    turns = [turn(total if k == len(tokens) - 1 else 0.0, trace=trace) for k, trace in enumerate(traces)]
    request = MatchRequest(index, game, deal_seed, 0, (policy,), (True,))
    return Episode(request, tuple(turns), (total,), EndReason.FINISHED, children=children)


def rollouts(main="main", sub="main"):
    """Return a query's three rollouts: two workers, one of whom asks a searcher; none; one."""
    searcher = played("look", sub, 0.0, [2])
    first = played(
        "plan", main, 1.0, [1, 3], played("ask", sub, 0.5, [4], searcher), played("ask", sub, 0.1, [1, 1]), index=4
    )
    return [first, played("plan", main, 0.0, [5], index=5), played("plan", main, 1.0, [2], third(sub), index=6)]


def third(sub):
    return played("ask", sub, 0.9, [6])


def trajectories(**policies):
    return to_trajectories(rollouts(**policies), lambda game: [SimpleNamespace(name=ROLES[game])], SCALES)


@pytest.mark.parametrize("sub", ["main", "sub"])
def test_matpo_gives_a_planners_advantage_to_all_that_its_rollout_opened(sub):
    """Returns 1, 0, 1: mean 2/3, spread 0.4714, z-scores 0.7071 and -1.4142; the searcher's parent is a worker."""
    batch = trajectories(sub=sub)
    assert [trajectory.root for trajectory in batch] == [None, 4, 4, 4, None, None, 6]
    assert [(trajectory.role, trajectory.policy) for trajectory in batch[:3]] == [
        ("planner", "main"),
        ("worker", sub),
        ("searcher", sub),
    ]
    advantages, *_ = credit("matpo", batch)
    high, low = pytest.approx(0.7071, abs=1e-4), pytest.approx(-1.4142, abs=1e-4)
    assert advantages == [[high] * 2, [high], [high], [high] * 2, [low], [high], [high]]


def test_m_grpo_compares_every_sub_role_with_its_own_kind():
    """Workers' returns 0.5, 0.1 (one rollout) and 0.9: mean (0.3 + 0.9) / 2, variance ((0.01 + 0.25) / 2 + 0.09) / 2.

    The only searcher has nobody to be compared with.
    """
    batch = trajectories(sub="sub")
    advantages, weights, state = credit("m_grpo", batch)
    spread = 0.11**0.5
    assert [advantages_K[-1] for advantages_K in advantages[1:4]] == pytest.approx(
        [-0.1 / spread, 0.0, -0.5 / spread], abs=1e-4
    )
    assert advantages[6] == [pytest.approx(0.3 / spread, abs=1e-4)]
    assert weights == [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0]
    assert {name: seen["d"] for name, seen in state["seen"].items()} == {"ask/worker": 2, "look/searcher": 1}


@pytest.mark.parametrize("sub", ["main", "sub"])
def test_a_rollouts_loss_is_divided_by_all_tokens_generated_in_it(sub):
    """12 tokens (4 of them the planner's), 5, and 8 (2): a policy has the share of a rollout that its tokens are."""
    batch = trajectories(sub=sub)
    evidence = count_rollout_tokens(batch, [Evidence()] * len(batch))
    shares = {}
    for policy in ("main", "sub"):
        members = [trajectory for trajectory in batch if trajectory.policy == policy]
        counted = [e for trajectory, e in zip(batch, evidence, strict=True) if trajectory.policy == policy]
        weights_NK = token_weights(members, Normalisation("rollout_mean"), evidence=counted)
        for trajectory, weights_K in zip(members, weights_NK, strict=True):
            tokens = [len(t.trace.reply_ids) for t in trajectory.turns]
            key = policy, trajectory.match if trajectory.root is None else trajectory.root
            shares[key] = shares.get(key, 0.0) + sum(w * n for w, n in zip(weights_K, tokens, strict=True))
    if sub == "main":
        assert shares == {("main", rollout): pytest.approx(1 / 3) for rollout in (4, 5, 6)}
    else:  # means over the rollouts in which a policy spoke: three of the planner's, two of the workers'
        assert shares == {
            ("main", 4): pytest.approx(4 / 12 / 3),
            ("main", 5): pytest.approx(1 / 3),
            ("main", 6): pytest.approx(2 / 8 / 3),
            ("sub", 4): pytest.approx((8 / 12) / (1 + 1)),
            ("sub", 6): pytest.approx((6 / 8) / (1 + 1)),
        }


def test_only_generated_tokens_are_trained_and_each_policy_trains_on_its_own():
    batch = trajectories(sub="sub")
    for policy, replies in (("main", [1, 3, 5, 2]), ("sub", [4, 2, 1, 1, 6])):
        members = [trajectory for trajectory in batch if trajectory.policy == policy]
        rows = to_batch(policy, members, [[1.0] * len(trajectory.turns) for trajectory in members], {}).free
        assert [len(row.reply) for row in rows for _ in range(int(row.visits))] == sorted(replies, key=replies.index)
