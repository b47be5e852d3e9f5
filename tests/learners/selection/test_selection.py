"""Rules of selection by their closed forms, and a batch without the turns that they leave out."""

import itertools
import json
import math
from statistics import fmean

import pytest
import torch
from support.learning.selections import batch_of, chosen, factors, saying
from support.learning.trajectories import trajectory
from support.matches.kuhn import FREE, kuhn_pocket, self_play
from support.models.pocket import brief

from games.common.errors import UsageError
from games.registry import make_game
from learners.batching import pack
from learners.losses.batch_loss import BatchLoss
from learners.losses.draws import DrawTensors
from learners.losses.objective import Objective, Surrogate
from learners.metric_sums import MetricSums
from learners.normalisation import Mismatch, Normalisation
from learners.selection import SELECTION, STATE, forget_policy
from learners.selection.rule import SelectionFacts
from learners.selection.stratified import Stratified, drawn_weights
from learners.trajectories import Evidence, TurnSelection


def test_refused_turns_are_left_out_or_given_their_own_advantage():
    batch = batch_of(
        [saying(trajectory([0.0, 1.0]), None, "bet"), saying(trajectory([1.0]), "pass")], [[2.0, 2.0], [3.0]]
    )
    [first, second] = chosen(batch, "refused").turns
    assert first == TurnSelection((0.0, 1.0), ("refused", ""), (2.0, 2.0))
    assert second == TurnSelection((1.0,), ("",), (3.0,))
    [first, _] = chosen(batch, "refused", refused={"advantage": -0.5}).turns
    assert first == TurnSelection((1.0, 1.0), ("", ""), (-0.5, 2.0))


def test_the_first_rule_that_leaves_a_turn_out_is_its_reason():
    batch = batch_of([saying(trajectory([0.0, 1.0]), None, "bet")], evidence=[Evidence(eligible=(False, False))])
    assert chosen(batch, "refused", "eligible").turns[0].reasons == ("refused", "eligible")
    assert chosen(batch, "eligible", "refused").turns[0].reasons == ("eligible", "eligible")
    assert chosen(batch._replace(weights=[[0.0, 0.0]]), "refused").turns[0].reasons == ("", "")  # credit's weight was 0


def groups(*returns):
    """Return a group of one-turn trajectories for each tuple of returns."""
    return [
        trajectory([value], deal_seed=start, match=10 * start + number)
        for start, of_group in enumerate(returns)
        for number, value in enumerate(of_group)
    ]


def test_flat_groups_are_left_out_unless_all_are():
    assert factors(chosen(batch_of(groups((1, 1), (0, 1))), "flat")) == [0, 0, 1, 1]
    assert factors(chosen(batch_of(groups((1, 1), (0, 0))), "flat")) == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({"share": 1 / 3}, [0, 0, 1, 1, 0, 0]),
        ({"share": 2 / 3}, [0, 0, 1, 1, 1, 1]),
        ({"share": 1.0}, [0, 0, 1, 1, 1, 1]),  # a group without spread exceeds no least
        ({"share": 1.0, "least": 0.6}, [0, 0, 1, 1, 0, 0]),
        ({"share": 1.0, "least": 9.0}, [1, 1, 1, 1, 1, 1]),
    ],
)
def test_the_most_spread_groups_are_kept(settings, kept):
    """Standard deviations 0, 1 and 1/2."""
    assert factors(chosen(batch_of(groups((1, 1), (-1, 1), (0, 1))), "spread", spread=settings)) == kept


def test_successes_with_the_fewest_errors_stand_for_the_others():
    clean, once, twice = ("bet", "bet", "bet"), (None, "bet", "bet"), (None, None, "bet")
    members = [
        saying(trajectory([0.0, 0.0, paid]), *said)
        for paid, said in ((1.0, clean), (1.0, once), (1.0, twice), (1.0, clean), (-1.0, twice))
    ]
    assert factors(chosen(batch_of(members), "fewest_errors")) == [2.0, 0.0, 0.0, 2.0, 1.0]  # 4 / 2 each


def test_errors_of_a_good_match_are_not_made_likelier():
    member = saying(trajectory([0.0] * 4), None, "a", "a", "b")
    assert chosen(batch_of([member], [[1.0] * 4]), "steps").turns[0].weights == (0, 1, 0, 1)
    assert chosen(batch_of([member], [[-1.0] * 4]), "steps").turns[0].weights == (1, 1, 1, 1)
    assert chosen(batch_of([member], [[1.0] * 4]), "steps", steps={"repeats": False}).turns[0].weights == (0, 1, 1, 1)


def test_stratified_draws_are_unbiased_in_closed_form():
    """Over all orders of the ranks, the mean of the weighted sum is the sum over all: to rounding."""
    strata, gradients = [[0, 1, 2], [3, 4]], [0.3, -1.7, 2.9, 0.11, 5.0]
    settings = Stratified(most=1)
    sums = []
    for order in itertools.permutations(range(5)):
        weights = drawn_weights(strata, dict(enumerate(order)), settings)
        assert sum(weights.values()) == 5.0
        sums.append(math.fsum(weight * gradients[i] for i, weight in weights.items()))
    assert len(set(sums)) > 1
    assert fmean(sums) == pytest.approx(math.fsum(gradients), abs=1e-12)


def test_equal_strata_weigh_the_same():
    members = [*groups((1.0, 1.0, 1.0)), trajectory([-1.0], match=9)]
    weights = factors(chosen(batch_of(members), "stratified", stratified={"weights": "equal"}))
    assert weights == [2 / 3, 2 / 3, 2 / 3, 2.0]
    drawn = factors(chosen(batch_of(members), "stratified", stratified={"weights": "equal", "most": 1}))
    assert sorted(drawn) == [0.0, 0.0, 2.0, 2.0]


def test_a_success_joins_the_group_that_fails_after_it():
    won, lost = groups((1.0, -1.0)), groups((-1.0, -1.0))
    first = chosen(batch_of(won, [[1.0], [-1.0]]), "successes")
    assert not first.replayed
    state = json.loads(json.dumps(first.state))  # as it is saved
    second = chosen(batch_of(lost, [[0.0], [0.0]]), "successes", state=state)
    [again] = second.replayed
    assert again.trajectory == won[0]
    # returns 1, -1, -1: mean -1/3, standard deviation sqrt(8) / 3
    assert again.advantages == pytest.approx((math.sqrt(2.0),), abs=1e-5)
    assert [turns.advantages[0] for turns in second.turns] == pytest.approx([-math.sqrt(0.5)] * 2, abs=1e-5)
    old = state[STATE + "successes"] | {"iteration": 21}
    assert not chosen(batch_of(lost), "successes", state={STATE + "successes": old}).replayed
    assert not chosen(batch_of(lost), "successes", state=forget_policy(state, "main")).replayed
    assert chosen(batch_of(lost), "successes", state=forget_policy(state, "probe")).replayed


def test_a_replayed_token_weighs_the_exponent_of_log_p_less_what_was_stored():
    """Stored at -2 and -1 nats, now -1.5 and 0: exp(1/2) and exp(1), the second cut off at 2."""
    [row] = pack("main", [stored(-2.0, -1.0)], [[1.0]], {}).batch.free
    by_draw = DrawTensors.of_rows([row], 2, torch.device("cpu"))
    weights = by_draw.importance(torch.tensor([[-1.5, 0.0]]), Mismatch(), 2.0)
    assert weights.tolist() == pytest.approx([math.exp(0.5), 2.0], abs=1e-6)


def stored(*logprobs):
    """Return a trajectory as the rule keeps it and reads it back."""
    from arena.records import TokenTrace

    played = trajectory([1.0])
    trace = TokenTrace("main", (1, 2), (7, 9), logprobs, None)
    won = played._replace(turns=(played.turns[0]._replace(trace=trace, action="bet", reply="bet"),))
    lost = won._replace(match=1, match_return=-1.0)
    state = chosen(batch_of([won, lost]), "successes").state
    lost = lost._replace(match_return=-1.0)
    return chosen(batch_of([lost, lost]), "successes", state=json.loads(json.dumps(state))).replayed[0].trajectory


def test_runs_that_a_rule_cannot_serve_are_refused():
    facts = SelectionFacts(make_game("kuhn_poker").spec, 8, starts_return=True, truncates=True)
    SELECTION["successes"].check(facts)
    for wrong, word in (
        ({"group_size": 1}, "group_size"),
        ({"starts_return": False}, "starts.rule"),
        ({"truncates": False}, "objective.truncate"),
    ):
        with pytest.raises(UsageError, match=word):
            SELECTION["successes"].check(facts._replace(**wrong))


NORMALISATIONS = ("constant", "token_mean", "sequence_mean", "role_mean", "rollout_mean", "prompt_mean")
OBJECTIVE = Objective(Surrogate("ppo", {"clip_low": 0.2, "clip_high": 0.2}), {"kuhn_poker": 0.1}, kl_old=0.3)


@pytest.fixture(scope="module")
def lm():
    return brief(kuhn_pocket())


@pytest.mark.parametrize("normalisation", NORMALISATIONS)
def test_the_gradient_is_that_of_the_batch_without_the_turns(lm, normalisation):
    """To 1e-7, with entropy and divergences, however tokens are averaged."""
    played = self_play(lm, 12, FREE)
    advantages = [[math.sin(7 * i + 3 * k) for k in range(len(t.turns))] for i, t in enumerate(played)]
    kept = [[(i + k) % 3 > 0 for k in range(len(t.turns))] for i, t in enumerate(played)]
    masked = [
        Evidence(selection=TurnSelection(tuple(map(float, row)), ("",) * len(row), tuple(of_turns)))
        for row, of_turns in zip(kept, advantages, strict=True)
    ]

    def of_kept(cells, row):
        return tuple([cell for cell, keep in zip(cells, row, strict=True) if keep])

    without = [
        t._replace(turns=of_kept(t.turns, row), rewards=of_kept(t.rewards, row), order=of_kept(t.order, row))
        for t, row in zip(played, kept, strict=True)
    ]
    rest = [of_kept(row, keep) for row, keep in zip(advantages, kept, strict=True)]
    whole, less = gradient(lm, played, advantages, normalisation, masked), gradient(lm, without, rest, normalisation)
    assert pack("main", played, advantages, {}, evidence=masked).batch.turns == sum(map(len, rest))
    assert float(less.abs().max()) > 1e-4
    torch.testing.assert_close(whole, less, atol=1e-7, rtol=0)
    assert not torch.allclose(whole, gradient(lm, played, advantages, normalisation), atol=1e-5)


def gradient(lm, trajectories, advantages, normalisation, evidence=None):
    batch = pack("main", trajectories, advantages, {}, Normalisation(normalisation), evidence=evidence).batch
    losses = BatchLoss(lm, None, batch, OBJECTIVE, max_tokens=8192)
    losses.record_old(MetricSums())
    lm.model.zero_grad()
    for loss in losses.losses(0, MetricSums()):
        loss.backward()
    return torch.cat([p.grad.flatten() for p in lm.model.parameters()])
