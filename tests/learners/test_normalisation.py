"""What tokens weigh: worked numbers, and what every normalisation has to keep."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.records import TokenTrace, Turn
from learners.normalisation import Normalisation, count_rollout_tokens, token_weights
from learners.trajectories import Evidence, Trajectory

MEANS = ("token_mean", "sequence_mean", "role_mean", "rollout_mean", "prompt_mean")


def turn(tokens, mask=False):
    """Return a free turn of this many tokens, or a choice that is spelled with this many."""
    trace = TokenTrace("main", (1,), (5,) * tokens, (-0.1,) * tokens, ("a", "b") if mask else None, 1.0)
    return Turn(0, "r", "main", "", ("a", "b"), "a", "a", 0.0, trace)


def trajectory(role, *turns, match=0, root=None, game="g"):
    origin = {"root": root, "root_game": None if root is None else "g"}
    return Trajectory(game, role, "main", 0, match, 0, ("main",), turns, (0.0,) * len(turns), 0.0, **origin)


# A role that talks: turns of 3 and 1 tokens. A terse one: two matches, of one and of two choices.
TALKER = trajectory("talker", turn(3), turn(1))
TERSE = [trajectory("terse", turn(4, mask=True)), trajectory("terse", turn(2, mask=True), turn(2, mask=True), match=1)]


@pytest.mark.parametrize(
    ("name", "length", "expected"),
    [
        ("constant", 1, [[1 / 5, 1 / 5], [1 / 5], [1 / 5, 1 / 5]]),
        ("constant", 4, [[1 / 20, 1 / 20], [1 / 20], [1 / 20, 1 / 20]]),
        ("token_mean", 1, [[1 / 7, 1 / 7], [1 / 7], [1 / 7, 1 / 7]]),  # 3 + 1 + 1 + 1 + 1 tokens
        ("sequence_mean", 1, [[1 / 15, 1 / 5], [1 / 5], [1 / 5, 1 / 5]]),
        ("role_mean", 1, [[1 / 12, 1 / 4], [1 / 4], [1 / 8, 1 / 8]]),
        ("rollout_mean", 1, [[1 / 10, 1 / 10], [1 / 10], [1 / 4, 1 / 4]]),  # match 0: 5 tokens, match 1: 2
        ("prompt_mean", 1, [[1 / 12, 1 / 4], [1 / 6], [1 / 6, 1 / 6]]),  # 2 turns are free, 3 choose
    ],
)
def test_weights_worked_by_hand(name, length, expected):
    weights = token_weights([TALKER, *TERSE], Normalisation(name, length))
    for weights_K, expected_K in zip(weights, expected, strict=True):
        assert weights_K == pytest.approx(expected_K, abs=1e-15)


def test_a_talkative_role_does_not_outvote_a_terse_one():
    """100 tokens against 1: by tokens the talker has 100 / 101 of the vote, by roles a half."""
    pair = [trajectory("talker", turn(100)), trajectory("terse", turn(1))]
    shares = {}
    for name in ("token_mean", "role_mean"):
        (talker,), _ = token_weights(pair, Normalisation(name))
        shares[name] = 100 * talker
    assert shares == {"token_mean": pytest.approx(100 / 101), "role_mean": pytest.approx(0.5)}


def test_a_prompt_that_is_seldom_met_weighs_as_much_as_one_that_is_met_often():
    """Three turns with one prompt, one of weight 2, and one turn with another."""
    rare = turn(1)
    rare = rare._replace(trace=rare.trace._replace(prompt_ids=(2,)))
    batch = [trajectory("r", turn(1)), trajectory("r", turn(1), turn(1)), trajectory("r", rare)]
    weights = token_weights(batch, Normalisation("prompt_mean"), [2.0, 1.0, 1.0])
    assert weights == [[pytest.approx(1 / 4)], [pytest.approx(1 / 8)] * 2, [pytest.approx(1 / 2)]]


def test_a_rollout_has_the_tokens_of_all_matches_that_it_opened():
    """Match 1 opened 2, and 2 opened 3; match 4 stands alone: 6 tokens and 2, half of the vote each."""
    batch = [
        trajectory("planner", turn(1), match=1),
        trajectory("worker", turn(2), match=2, root=1),
        trajectory("worker", turn(3), match=3, root=1, game="search"),
        trajectory("planner", turn(2), match=4),
    ]
    weights = token_weights(batch, Normalisation("rollout_mean"))
    assert [weights_K[0] for weights_K in weights] == pytest.approx([1 / 12, 1 / 12, 1 / 12, 1 / 4], abs=1e-15)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("constant", [1 / 2, 1 / 2, 1, 1 / 2, 1 / 2]),
        ("token_mean", [1 / 3, 1 / 3, 1 / 4, 1 / 6, 1 / 6]),
        ("sequence_mean", [1 / 2, 1 / 4, 1 / 4, 1 / 10, 1 / 2]),
        ("role_mean", [1 / 2, 1 / 4, 1 / 4, 1 / 10, 1 / 2]),
        ("rollout_mean", [1 / 2, 1 / 4, 1 / 10, 1 / 10, 1 / 10]),  # rollouts of 1, 2 and 4 + 5 + 1 tokens
        ("prompt_mean", [1 / 2, 1 / 4, 1 / 4, 1 / 10, 1 / 2]),
    ],
)
def test_a_game_that_another_opens_is_averaged_apart_from_its_own_matches(name, expected):
    """Two matches of "find", of 1 and 2 tokens; one of "g" with 4 tokens opened two more of "find", of 5 and 1."""
    batch = [
        trajectory("worker", turn(1), match=1, game="find"),
        trajectory("worker", turn(2), match=2, game="find"),
        trajectory("planner", turn(4), match=3),
        trajectory("worker", turn(5), match=4, root=3, game="find"),
        trajectory("worker", turn(1), match=5, root=3, game="find"),
    ]
    weights = token_weights(batch, Normalisation(name))
    assert [weights_K[0] for weights_K in weights] == pytest.approx(expected, abs=1e-15)


def test_workers_whose_planner_is_another_policy_still_are_one_rollout():
    batch = [trajectory("worker", turn(1), match=i, root=p) for i, p in ((5, 1), (6, 1), (7, 2))]
    weights = token_weights(batch, Normalisation("rollout_mean"))
    assert [weights_K[0] for weights_K in weights] == pytest.approx([1 / 4, 1 / 4, 1 / 2], abs=1e-15)


@pytest.mark.parametrize("name", ["constant", *MEANS])
def test_a_trajectory_without_turns_changes_nothing(name):
    batch = [TALKER, *TERSE]
    empty = [trajectory("terse", match=9), trajectory("silent", match=8), trajectory("talker", match=7, game="other")]
    weights = token_weights([*batch, *empty], Normalisation(name))
    assert weights == [*token_weights(batch, Normalisation(name)), [], [], []]


turns_of = st.lists(st.builds(turn, st.integers(1, 6), st.booleans()), max_size=4)
batches = st.lists(
    st.builds(
        lambda role, turns, match, game: trajectory(role, *turns, match=match, game=game),
        st.sampled_from("abc"),
        turns_of,
        st.integers(0, 3),
        st.just("g"),
    ),
    max_size=8,
)


def token_counts(t):
    return [len(turn.trace.reply_ids) if turn.trace.mask is None else 1 for turn in t.turns]


@pytest.mark.parametrize("name", MEANS)
@given(batch=batches, other=batches)
def test_a_games_tokens_weigh_one_whatever_other_games_do(name, batch, other):
    elsewhere = [t._replace(game="h", match=t.match + 10) for t in other]
    weights = token_weights([*batch, *elsewhere], Normalisation(name))
    for game in ("g", "h"):
        shares = [
            w * n
            for t, weights_K in zip([*batch, *elsewhere], weights, strict=True)
            for w, n in zip(weights_K, token_counts(t), strict=True)
            if t.game == game
        ]
        assert not shares or sum(shares) == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["constant", *MEANS])
@given(batch=batches)
def test_order_changes_nothing(name, batch):
    weights = token_weights(batch, Normalisation(name, 3))
    assert token_weights(batch[::-1], Normalisation(name, 3)) == weights[::-1]


@pytest.mark.parametrize("name", ["constant", *MEANS])
@given(batch=batches, weights=st.lists(st.integers(0, 3), min_size=8, max_size=8))
def test_a_weight_counts_as_so_many_alike(name, batch, weights):
    """A trajectory of weight 3 is worth three of it; one of weight 0 might as well not be there."""
    weighted = token_weights(batch, Normalisation(name, 2), list(map(float, weights[: len(batch)])))
    copies = [t for t, w in zip(batch, weights, strict=False) for _ in range(w)]
    copy_weights = iter(token_weights(copies, Normalisation(name, 2)))
    for t, w, weights_K in zip(batch, weights, weighted, strict=False):
        sums = [0.0] * len(t.turns)
        for _ in range(w):
            sums = [a + b for a, b in zip(sums, next(copy_weights), strict=True)]
        assert weights_K == pytest.approx(sums, abs=1e-12)


def test_a_rollouts_tokens_are_those_of_all_its_policies():
    """Planner and workers have policies of their own: 2 + 3 + 1 tokens and 4; each token has its share of the whole."""
    planners = [trajectory("planner", turn(2), match=1), trajectory("planner", turn(4), match=2)]
    workers = [
        trajectory("worker", turn(3), match=3, root=1)._replace(policy="sub"),
        trajectory("worker", turn(1), match=4, root=1)._replace(policy="sub"),
    ]
    counted = count_rollout_tokens([*planners, *workers], [Evidence()] * 4)
    alone = token_weights(planners, Normalisation("rollout_mean"), evidence=counted[:2])
    assert [weights_K[0] for weights_K in alone] == pytest.approx([1 / 12, 1 / 8], abs=1e-15)
    beside = token_weights(workers, Normalisation("rollout_mean"), evidence=counted[2:])
    assert [weights_K[0] for weights_K in beside] == pytest.approx([1 / 6] * 2)
