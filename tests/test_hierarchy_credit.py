"""Credit of whole families of episodes: what matches opened belongs to the rollout that began them, policies apart."""

from types import SimpleNamespace

import pytest
from small_batches import turn

from arena.records import EndReason, Episode, MatchRequest, TokenTrace
from learners.advantages import RULES, WEIGHERS, Credit
from learners.batching import to_batch
from learners.normalisation import Normalisation, token_weights, with_rollout_tokens
from learners.trajectories import to_trajectories

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
    assert [one.root for one in batch] == [None, 4, 4, 4, None, None, 6]
    assert [(one.role, one.policy) for one in batch[:3]] == [("planner", "main"), ("worker", sub), ("searcher", sub)]
    advantages, _ = RULES["matpo"](batch, {}, Credit())
    high, low = pytest.approx(0.7071, abs=1e-4), pytest.approx(-1.4142, abs=1e-4)
    assert advantages == [[high] * 2, [high], [high], [high] * 2, [low], [high], [high]]


def test_m_grpo_compares_every_sub_role_with_its_own_kind():
    """Workers' returns 0.5, 0.1 (one rollout) and 0.9: mean (0.3 + 0.9) / 2, variance ((0.01 + 0.25) / 2 + 0.09) / 2.

    The only searcher has nobody to be compared with.
    """
    batch = trajectories(sub="sub")
    advantages, _ = RULES["m_grpo"](batch, {}, Credit())
    spread = 0.11**0.5
    assert [own[-1] for own in advantages[1:4]] == pytest.approx([-0.1 / spread, 0.0, -0.5 / spread], abs=1e-4)
    assert advantages[6] == [pytest.approx(0.3 / spread, abs=1e-4)]
    weights, state = WEIGHERS["m_grpo"](batch, {}, Credit())
    assert weights == [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0]
    assert {name: seen["d"] for name, seen in state["seen"].items()} == {"ask/worker": 2, "look/searcher": 1}


@pytest.mark.parametrize("sub", ["main", "sub"])
def test_a_rollouts_loss_is_divided_by_all_tokens_generated_in_it(sub):
    """12 tokens (4 of them the planner's), 5, and 8 (2): a policy has the share of a rollout that its tokens are."""
    batch = with_rollout_tokens(trajectories(sub=sub))
    shares = {}
    for policy in ("main", "sub"):
        own = [one for one in batch if one.policy == policy]
        for one, weights in zip(own, token_weights(own, Normalisation("rollout_mean")), strict=True):
            tokens = [len(t.trace.reply_ids) for t in one.turns]
            key = policy, one.match if one.root is None else one.root
            shares[key] = shares.get(key, 0.0) + sum(w * n for w, n in zip(weights, tokens, strict=True))
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
        own = [one for one in batch if one.policy == policy]
        rows = to_batch(policy, own, [[1.0] * len(one.turns) for one in own], {}).free
        assert [len(row.reply) for row in rows for _ in range(int(row.visits))] == sorted(replies, key=replies.index)
