"""The match store: its sums are those of the matches, however they came in."""

import math
from collections import defaultdict
from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.matches.made_up import GAME, episode

from arena.records import EndReason, Episode, MatchRequest, Turn
from games.common.seeds import derive_seed
from league.population.evaluation.head_to_head import mean_return, score
from league.population.results.match_store import MatchStore
from league.population.results.payoffs import summarise
from league.theory.statistics import clustered_mean

WIDE = (-1e9, 1e9)  # bounds that cut no interval


@st.composite
def batches(draw, seats):
    """Return matches cut into calls of ``add``, each with its iteration, in any order of their indices."""
    gain = st.integers(-50, 50).map(lambda tenths: tenths / 10)  # 0.1 + 0.2 is not 0.3, and yet it is level with it
    match = st.tuples(
        st.tuples(*[st.sampled_from("dcab")] * seats),
        st.tuples(*[gain] * seats),
        st.integers(0, 3),
        st.sampled_from(["toy", "toy", "another toy"]),
        st.sets(st.integers(0, seats - 1)),
    )
    drawn = draw(st.lists(match, min_size=1, max_size=24))
    matches = [episode(i, *match[:3], match[3], match[4]) for i, match in enumerate(drawn)]
    order = draw(st.permutations(matches))
    cuts = [0, *sorted(draw(st.lists(st.integers(0, len(order)), max_size=3))), len(order)]
    return [(order[low:high], draw(st.integers(0, 2))) for low, high in pairwise(cuts)]


def stored(tmp_path_factory, calls):
    store = MatchStore(tmp_path_factory.mktemp("store") / "results.sqlite")
    assert [store.add(batch, iteration) for batch, iteration in calls] == [len(batch) for batch, _ in calls]
    return store


def standard_error(values, deals):
    """Return what clustered_mean's interval rests on, worked out term by term."""
    mean, count = math.fsum(values) / len(values), len(set(deals))
    if count == 1:
        return math.nan
    parts = defaultdict(list)
    for value, deal in zip(values, deals, strict=True):
        parts[deal].append(value - mean)
    return math.sqrt(count / (count - 1) * math.fsum(sum(part) ** 2 for part in parts.values())) / len(values)


def same(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def by(episodes, key):
    groups = defaultdict(list)
    for one in sorted(episodes, key=lambda one: one.request.index):
        for found in key(one):
            groups[found].append(one)
    return dict(sorted(groups.items()))


@pytest.mark.parametrize("seats", [1, 2, 3])
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_sums_are_those_of_the_matches_whatever_the_calls_and_their_order(seats, data, tmp_path_factory):
    calls = data.draw(batches(seats))
    everything = [one for batch, _ in calls for one in batch]
    with stored(tmp_path_factory, calls) as store:
        assert store.games() == sorted({one.request.game for one in everything})
        assert store.indices() == set(range(len(everything)))
        for game in store.games():
            own = [one for one in everything if one.request.game == game]
            assert store.count(game) == len(own)
            check_cells(store.cells(game), own)
            check_pairs(store.pairs(game), own)


def check_cells(cells, episodes):
    """Every line-up against plain loops; the standard error also against the interval of ``clustered_mean``."""
    expected = by(episodes, lambda one: [one.request.players])
    assert cells.players == tuple(sorted({player for players in expected for player in players}))
    assert [tuple(cells.players[p] for p in lineup) for lineup in cells.lineup] == list(expected)
    for row, (players, played) in enumerate(expected.items()):
        deals = [one.request.deal_seed for one in played]
        assert (cells.n[row], cells.deals[row]) == (len(played), len(set(deals)))
        for seat in range(len(players)):
            returns = [one.returns[seat] for one in played]
            estimate = clustered_mean(returns, deals, WIDE)
            same(cells.returns[row, seat], estimate.mean)
            same(cells.returns_error[row, seat], standard_error(returns, deals))
            if len(players) > 1:
                # A seat against all others: head_to_head's score with the seat as A and the rest as B.
                seating = [int(other != seat) for other in range(len(players))]
                scores = [score(one.returns, seating) for one in played]
                same(cells.scores[row, seat], clustered_mean(scores, deals, WIDE).mean)
                same(cells.scores_error[row, seat], standard_error(scores, deals))
            else:
                assert np.isnan(cells.scores).all()


def check_pairs(pairs, episodes):
    """Every two players against ``head_to_head``, with the seats of others left out."""
    expected = by(episodes, lambda one: combinations(sorted(set(one.request.players)), 2))
    assert [(pairs.players[a], pairs.players[b]) for a, b in zip(pairs.a, pairs.b, strict=True)] == list(expected)
    for row, ((a, b), played) in enumerate(expected.items()):
        deals = [one.request.deal_seed for one in played]
        leads, scores = [], []
        for one in played:
            seats = [
                (gain, (a, b).index(p)) for gain, p in zip(one.returns, one.request.players, strict=True) if p in (a, b)
            ]
            returns, seating = zip(*seats, strict=True)
            leads.append(mean_return(returns, seating, 0) - mean_return(returns, seating, 1))
            scores.append(score(returns, seating))
        assert (pairs.n[row], pairs.deals[row]) == (len(played), len(set(deals)))
        same(pairs.lead[row], clustered_mean(leads, deals, WIDE).mean)
        same(pairs.lead_error[row], standard_error(leads, deals))
        same(pairs.score[row], clustered_mean(scores, deals, WIDE).mean)
        same(pairs.score_error[row], standard_error(scores, deals))
        check_deals_won(pairs, row, played)


def check_deals_won(pairs, row, episodes):
    """Who won each deal, by the decimals that the returns are written as."""
    a, b = pairs.players[pairs.a[row]], pairs.players[pairs.b[row]]
    sums = defaultdict(Fraction)
    for one in episodes:
        returns = [Fraction(repr(gain)) for gain in one.returns]
        lead = mean_return(returns, one.request.players, a) - mean_return(returns, one.request.players, b)
        sums[one.request.deal_seed] += lead
    expected = [sum(lead > 0 for lead in sums.values()), sum(lead == 0 for lead in sums.values())]
    assert [pairs.won[row], pairs.drawn[row]] == expected
    assert pairs.won[row] + pairs.drawn[row] + pairs.lost[row] == len(sums)


def test_a_standard_error_is_what_the_interval_of_head_to_head_rests_on():
    # The hand-worked case of test_head_to_head: deals {0, 2}, {4, 6}, {3, 3} have Var = 4/3.
    assert standard_error([0, 2, 4, 6, 3, 3], "aabbcc") == pytest.approx(math.sqrt(4 / 3))


@pytest.mark.parametrize("seats", [1, 2, 3])
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_results_are_bit_for_bit_what_summarise_gives(seats, data, tmp_path_factory):
    calls = data.draw(batches(seats))
    iterations = sorted({iteration for batch, iteration in calls if batch})
    with stored(tmp_path_factory, calls) as store:
        found = list(store.results())
    expected = [
        result
        for iteration in iterations
        for result in summarise([one for batch, own in calls if own == iteration for one in batch], iteration)
    ]
    assert found == expected


@settings(max_examples=30, deadline=None)
@given(calls=batches(2), data=st.data())
def test_the_same_matches_give_the_same_bits_and_twice_is_once(calls, data, tmp_path_factory):
    everything = [one for batch, _ in calls for one in batch]
    with stored(tmp_path_factory, calls) as one, stored(tmp_path_factory, [(everything, 0)]) as other:
        assert other.add(data.draw(st.permutations(everything)), 7) == 0
        for game in one.games():
            for name in ("cells", "pairs"):
                ours, theirs = getattr(one, name)(game), getattr(other, name)(game)
                for field in ours.__dataclass_fields__:
                    np.testing.assert_array_equal(getattr(ours, field), getattr(theirs, field))


def test_duplicate_scoring_takes_out_the_luck_of_the_deal(tmp_path):
    """The first seat always wins 5; a plays one point better than b in the second deal only."""
    with MatchStore(tmp_path / "results.sqlite") as store:
        store.add(
            [
                episode(0, ("a", "b"), (5.0, -5.0), deal=0),
                episode(1, ("b", "a"), (5.0, -5.0), deal=0),
                episode(2, ("a", "b"), (5.0, -5.0), deal=1),
                episode(3, ("b", "a"), (4.0, -4.0), deal=1),
                episode(4, ("a", "a"), (5.0, -5.0), deal=1),  # nobody meets itself
            ]
        )
        pairs, cells = store.pairs(GAME), store.cells(GAME)
    assert (pairs.n, pairs.deals, pairs.won, pairs.drawn, pairs.lost) == ([4], [2], [1], [1], [0])
    # Leads 10, -10, 10, -8: mean 1/2; the deals' deviations are -1 and 1: Var = 2/1 * 2 / 16.
    assert pairs.lead == 0.5
    assert pairs.lead_error == 0.5
    assert pairs.score == 0.5
    assert cells.lineup.tolist() == [[0, 0], [0, 1], [1, 0]]
    assert cells.n.tolist() == [1, 2, 2]


def test_matches_come_back_in_order_with_roles_for_silent_seats(tmp_path):
    matches = [
        episode(7, ("b", "a"), (0.1 + 0.2, -1.0), silent=(0,), rule="pfsp"),
        episode(3, ("a", "b"), (1.0, -0.0), rule="self_play"),
        episode(5, ("x",), (2.0,), game="solitaire"),
    ]
    with MatchStore(tmp_path / "results.sqlite") as store:
        store.add(matches, iteration=4)
        found = list(store.matches(GAME))
        assert [tuple(one) for one in found] == [
            (3, GAME, derive_seed("deal", 3), ("a", "b"), ("r0", "r1"), (1.0, 0.0), "self_play", 4),
            (7, GAME, derive_seed("deal", 7), ("b", "a"), ("r0", "r1"), (0.1 + 0.2, -1.0), "pfsp", 4),
        ]
        assert store.roles(GAME) == ("r0", "r1")
        assert store.roles("solitaire") == ("r0",)
        assert store.roles("unknown") == ()
        assert list(store.matches("unknown")) == []
        assert store.cells("unknown").n.tolist() == store.pairs("unknown").n.tolist() == []


def test_a_resumed_run_forgets_what_it_will_play_again(tmp_path):
    with MatchStore(tmp_path / "results.sqlite") as store:
        for iteration in range(4):
            store.add([episode(iteration, ("a", "b"), (1.0, -1.0))], iteration)
        assert store.cells(GAME).n.tolist() == [4]
        store.discard_after(1)
        assert store.indices() == {0, 1}
        assert store.cells(GAME).n.tolist() == [2]
        assert store.add([episode(2, ("b", "a"), (1.0, -1.0))], 2) == 1
        assert [result.iteration for result in store.results()] == [0, 0, 1, 1, 2, 2]


def test_a_return_that_is_not_finite_stores_nothing(tmp_path):
    with MatchStore(tmp_path / "results.sqlite") as store:
        with pytest.raises(ValueError, match="match 1: "):
            store.add([episode(0, ("a", "b"), (1.0, -1.0)), episode(1, ("a", "b"), (math.nan, 0.0))])
        assert store.indices() == set()
        assert store.add([]) == 0


def test_a_seat_has_the_role_of_the_latest_match_in_which_it_had_a_turn(tmp_path):
    """By index, however they came in: seat 0 had a new card from match 1 on, and seat 1 was silent after match 0."""

    def cast(index, roles):
        request = MatchRequest(index, "toy", index, index, ("a", "b"), (False, False))
        turns = [Turn(seat, name, "a", "", ("x",), "x", "x", 0.0, None) for seat, name in roles.items()]
        return Episode(request, tuple(turns), (0.0, 0.0), EndReason.FINISHED)

    with MatchStore(tmp_path / "results.sqlite") as store:
        store.add([cast(2, {0: "new"}), cast(0, {0: "old", 1: "other"})], 0)
        store.add([cast(1, {0: "new"})], 1)
        assert store.roles("toy") == ("new", "other")
