"""Joint distributions in the full game: closed forms, every pure strategy tried, OpenSpiel's answers and its JPSRO."""

from __future__ import annotations

import itertools

import numpy as np
import pyspiel
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.timing import processor_seconds

from benchmarks.simulations.jpsro_tabular import EXTRA_ITERATIONS, KUHN, OPENSPIEL, SHERIFF, jpsro
from games.common.errors import UsageError
from games.openspiel.game import load_pyspiel
from league.theory.exact.equilibrium_gaps import (
    best_response_table,
    cce_gap,
    ce_gap,
    exact_game,
    gains_by_recommendation,
    gaps_by_player,
    opponent_reach,
)
from league.theory.exact.exploitability import (
    PolicyTable,
    best_response_values,
    exact_form,
    head_to_head,
    nash_conv,
    seat_mixture,
    uniform_table,
)
from league.theory.exact.sequence_form import sequence_form
from league.theory.solvers import gaps

GOOFSPIEL = "goofspiel(players=3,num_cards=2,imp_info=True)"
FOUR_SEATS = "goofspiel(players=4,num_cards=2,imp_info=True)"
SMALL = ["kuhn_poker", "kuhn_poker(players=3)", "tiny_hanabi", SHERIFF, GOOFSPIEL]
CONCEPTS = ["cce", "ce"]
SEEDS = st.integers(0, 10_000)


def random_table(game: str, generator: np.random.Generator) -> PolicyTable:
    """Return independent random distributions; about every fourth action of a longer menu is never played."""
    rows = {}
    for key, ids in zip(exact_form(game).keys, exact_form(game).legal, strict=True):
        weights = generator.random(len(ids)) * (generator.random(len(ids)) < 0.75)
        weights[generator.integers(len(ids))] += 0.1
        rows[key] = tuple((weights / weights.sum()).tolist())
    return PolicyTable(game, rows)


def population(game: str, seed: int, most: int = 3) -> tuple[np.ndarray, list[list[PolicyTable]]]:
    """Return random tables for each seat, and a random joint distribution over their line-ups, some left out."""
    generator = np.random.default_rng(seed)
    sizes = generator.integers(1, most + 1, exact_form(game).seats)
    joint = generator.random(sizes) * (generator.random(sizes) < 0.7) + 1e-300
    return joint / joint.sum(), [[random_table(game, generator) for _ in range(size)] for size in sizes]


def pure(game: str, seat: int) -> list[PolicyTable]:
    """Return every pure strategy of a seat."""
    form = sequence_form(game)
    states = [(key, len(ids)) for key, ids in zip(form.keys, form.legal, strict=True) if key[0] == seat]
    menus = [[tuple(row) for row in np.eye(size).tolist()] for _, size in states]
    return [PolicyTable(game, {k: row for (k, _), row in zip(states, rows, strict=True)}) for rows in product(menus)]


def product(menus: list[list[tuple[float, ...]]]) -> list[tuple[tuple[float, ...], ...]]:
    return list(itertools.product(*menus))


@pytest.mark.parametrize("game", [*SMALL, FOUR_SEATS, "leduc_poker", "tic_tac_toe"])
def test_the_game_among_tables_holds_every_line_ups_value(game: str) -> None:
    _, tables = population(game, seed=1, most=2)
    values = exact_game(tables).values
    assert values.shape == (len(tables), *map(len, tables))
    for lineup in np.ndindex(*values.shape[1:]):
        seated = [strategies[strategy] for strategies, strategy in zip(tables, lineup, strict=True)]
        assert values[(slice(None), *lineup)] == pytest.approx(head_to_head(seated), abs=1e-12)


@pytest.mark.timed
@pytest.mark.parametrize(("game", "size", "seconds"), [("kuhn_poker", 100, 0.02), ("leduc_poker", 40, 1.0)])
def test_large_populations_are_quick(game: str, size: int, seconds: float) -> None:
    generator = np.random.default_rng(0)
    tables = [[random_table(game, generator) for _ in range(size)] for _ in range(2)]
    assert processor_seconds(lambda: exact_game(tables), repeats=3) < seconds


@pytest.mark.parametrize("concept", CONCEPTS)
@pytest.mark.parametrize(("both", "gap"), [(0.0, 0.0), (1 / 3, 0.0), (0.5, 0.25), (1.0, 1.0)])
def test_chickens_traffic_light(both: float, gap: float, concept: str) -> None:
    """Dare, dare pays 0, 0; dare, chicken 4, 1; chicken, chicken 3, 3. Both chicken with probability w, else one, each
    as often. Told to be chicken, daring gains 4 w - (3 w + (1 - w) / 2) = (3 w - 1) / 2 if that is more than 0.
    """
    joint = np.array([[0.0, (1 - both) / 2], [(1 - both) / 2, both]])
    tables = [pure("matrix_cd", seat) for seat in (0, 1)]
    assert gaps_by_player(joint, tables, concept) == pytest.approx([gap, gap], abs=1e-12)


def test_three_player_matching_pennies() -> None:
    """The first wants to match the second, the second the third, the third not to match the first; +1 or -1.

    Uniform play is the equilibrium. Where all show one side, either as often, the third always loses: a side
    that it fixes before gains 1, and one that it picks when it knows the others' gains 2.
    """
    tables = [pure("matching_pennies_3p", seat) for seat in range(3)]
    uniform = np.full((2, 2, 2), 1 / 8)
    assert (cce_gap(uniform, tables), ce_gap(uniform, tables)) == pytest.approx((0.0, 0.0))
    alike = np.zeros((2, 2, 2))
    alike[0, 0, 0] = alike[1, 1, 1] = 0.5
    assert gaps_by_player(alike, tables, "cce") == pytest.approx([0.0, 0.0, 1.0])
    assert gaps_by_player(alike, tables, "ce") == pytest.approx([0.0, 0.0, 2.0])


@settings(deadline=None, max_examples=20)
@example(349, GOOFSPIEL, "cce")
@given(SEEDS, st.sampled_from(["kuhn_poker", GOOFSPIEL, FOUR_SEATS]), st.sampled_from(CONCEPTS))
def test_gaps_are_those_of_every_pure_strategy_tried(seed: int, game: str, concept: str) -> None:
    joint, tables = population(game, seed)
    for seat, gap in enumerate(gaps_by_player(joint, tables, concept)):
        wider = list(tables)
        wider[seat] = [*tables[seat], *pure(game, seat)]
        values = np.moveaxis(exact_game(wider).values[seat], seat, 0)
        by_strategy = np.moveaxis(joint, seat, 0)  # [n_p, others]
        gains = np.array(
            [
                [(weights * (other - values[strategy])).sum() for other in values]
                for strategy, weights in enumerate(by_strategy)
            ]
        )
        best = gains.sum(axis=0).max() if concept == "cce" else gains.max(axis=1).sum()
        assert gap == pytest.approx(max(best, 0.0), abs=1e-12)  # to obey may be better than any one strategy


@settings(deadline=None, max_examples=15)
@given(SEEDS, st.sampled_from(SMALL))
def test_gaps_are_ordered(seed: int, game: str) -> None:
    """A recommendation gains no less than none, and the full game offers no less than the population."""
    joint, tables = population(game, seed)
    coarse, correlated = (gaps_by_player(joint, tables, concept) for concept in CONCEPTS)
    assert coarse.min() >= 0.0
    assert (correlated >= coarse - 1e-12).all()
    for concept, full in zip(CONCEPTS, (coarse, correlated), strict=True):
        assert (full >= gaps(exact_game(tables), joint, concept) - 1e-12).all()
    assert (cce_gap(joint, tables), ce_gap(joint, tables)) == (coarse.sum(), correlated.sum())


@settings(deadline=None, max_examples=15)
@given(SEEDS, st.sampled_from(SMALL))
def test_independent_players_have_the_gap_of_their_mixtures_nash_conv(seed: int, game: str) -> None:
    """A recommendation then says nothing of the others, so both gaps are NashConv."""
    joint, tables = population(game, seed)
    shares = [joint.sum(axis=tuple(q for q in range(joint.ndim) if q != p)) for p in range(joint.ndim)]
    independent = shares[0]
    for share in shares[1:]:
        independent = np.multiply.outer(independent, share)
    expected = nash_conv(seat_mixture(tables, [share.tolist() for share in shares]))
    assert (cce_gap(independent, tables), ce_gap(independent, tables)) == pytest.approx((expected, expected), abs=1e-9)


def as_openspiel(lineup: list[PolicyTable]) -> pyspiel.TabularPolicy:
    """Return OpenSpiel's table of who sits in each seat."""
    rows = {}
    form = sequence_form(lineup[0].game)
    for key, ids in zip(form.keys, form.legal, strict=True):
        rows[key[1]] = list(zip(ids, lineup[key[0]].probabilities[key], strict=True))
    return pyspiel.TabularPolicy(rows)


@settings(deadline=None, max_examples=15)
@given(SEEDS, st.sampled_from(["kuhn_poker", "kuhn_poker(players=3)", SHERIFF]), st.sampled_from(CONCEPTS))
def test_gains_are_openspiels(seed: int, game: str, concept: str) -> None:
    """``pyspiel.cce_dist`` best-responds to a mixture of joint policies; OpenSpiel's JPSRO does, for each advice."""
    joint, tables = population(game, seed, most=2)
    loaded = load_pyspiel(game)
    for seat in range(joint.ndim):
        gains = gains_by_recommendation(joint, tables, seat, concept)
        cases = [slice(None)] if concept == "cce" else range(joint.shape[seat])
        for gain, strategy in zip(gains, cases, strict=True):
            allowed = np.zeros_like(joint)
            part = (*[slice(None)] * seat, strategy)
            allowed[part] = joint[part]
            weight = allowed.sum()
            device = [
                (
                    allowed[lineup] / weight,
                    as_openspiel([strategies[i] for strategies, i in zip(tables, lineup, strict=True)]),
                )
                for lineup in np.ndindex(*joint.shape)
                if allowed[lineup] / weight > 1e-12
            ]
            best = pyspiel.cce_dist(loaded, device, seat, 0.0, -1.0).best_response_values[0]
            root = loaded.new_initial_state()
            obeyed = sum(share * pyspiel.expected_returns(root, table, -1, True)[seat] for share, table in device)
            assert gain == pytest.approx(weight * max(best - obeyed, 0.0), abs=1e-9)  # who would lose by leaving obeys


@settings(deadline=None, max_examples=15)
@given(SEEDS, st.sampled_from(SMALL))
@example(215, "goofspiel(players=3,num_cards=2,imp_info=True)")  # one player would lose by leaving
def test_a_best_response_joined_to_the_population_earns_the_gap(seed: int, game: str) -> None:
    joint, tables = population(game, seed)
    form = sequence_form(game)
    for seat, gap in enumerate(gaps_by_player(joint, tables, "cce")):
        reach = opponent_reach(joint, tables, seat, "cce")[0]
        response = best_response_table(seat, reach, form)
        wider = list(tables)
        wider[seat] = [*tables[seat], response]
        values = np.moveaxis(exact_game(wider).values[seat], seat, 0)
        by_strategy = np.moveaxis(joint, seat, 0)
        earned = (by_strategy.sum(axis=0) * values[-1]).sum() - (by_strategy * values[:-1]).sum()
        assert gap == pytest.approx(max(earned, 0.0), abs=1e-9)  # who would lose by leaving obeys
        rows = response.probabilities.values()
        assert all(max(row) == 1.0 or len(set(row)) == 1 for row in rows)


def test_a_best_response_takes_the_first_of_equals_and_plays_flat_where_it_never_comes() -> None:
    """The second seat of Kuhn against one who always passes: with J or Q a bet wins 1, more than a pass may; with
    K a pass wins as much, and comes first. It is never bet at, and so plays that flat.
    """
    form = sequence_form("kuhn_poker")
    folder = PolicyTable("kuhn_poker", dict.fromkeys(form.keys, (1.0, 0.0)))
    reach = opponent_reach(np.ones((1, 1)), [[folder], [folder]], 1, "cce")[0]
    rows = best_response_table(1, reach, form).probabilities
    assert {key: row for (_, key), row in rows.items()} == {
        **dict.fromkeys(("0p", "1p"), (0.0, 1.0)),
        "2p": (1.0, 0.0),  # 1 chip by a bet as by a showdown
        **dict.fromkeys(("0b", "1b", "2b"), (0.5, 0.5)),
    }
    assert best_response_values(folder)[1] == 1.0


@pytest.mark.parametrize(
    ("game", "concept", "alike"), [(KUHN, "ce", 5), (KUHN, "cce", 10), (SHERIFF, "ce", 4), (SHERIFF, "cce", 5)]
)
def test_jpsro_goes_the_way_of_openspiels(game: str, concept: str, alike: int) -> None:
    """The gaps by iteration that OpenSpiel's own run had, as far as its solver's tolerance does not break a tie."""
    ours = jpsro(game, concept, alike)
    assert [iteration.gap for iteration in ours] == pytest.approx(OPENSPIEL[game, concept][:alike], rel=1e-4)


@pytest.mark.thorough
@pytest.mark.parametrize(("game", "concept"), OPENSPIEL)
def test_jpsro_ends_in_an_equilibrium_of_the_full_game(game: str, concept: str) -> None:
    """Ours comes to 0 within a few iterations of as many as OpenSpiel's had when its gap was down to 0.006."""
    theirs = OPENSPIEL[game, concept]
    assert jpsro(game, concept, len(theirs) + EXTRA_ITERATIONS)[-1].gap <= 1e-6
    assert theirs[-1] <= 0.007


def test_jpsro_finds_openspiels_values_of_sheriff() -> None:
    """Smuggler and sheriff expect 0.819672 and 0 at OpenSpiel's equilibrium, 50/61 by our exact arithmetic."""
    assert jpsro(SHERIFF, "ce", 20)[-1].values == pytest.approx((50 / 61, 0.0), abs=1e-6)


def test_what_does_not_fit_is_refused() -> None:
    kuhn, hanabi, board = (uniform_table(name) for name in ("kuhn_poker", "tiny_hanabi", "tic_tac_toe"))
    with pytest.raises(ValueError, match="2 seats, got the tables of 3"):
        exact_game([[kuhn]] * 3)
    with pytest.raises(ValueError, match="one game"):
        exact_game([[kuhn], [hanabi]])
    with pytest.raises(ValueError, match="a table or more for each seat"):
        exact_game([[kuhn], []])
    with pytest.raises(ValueError, match=r"shape \[1, 1\], got \[1, 2\]"):
        cce_gap(np.full((1, 2), 0.5), [[kuhn], [kuhn]])
    with pytest.raises(ValueError, match="sum to one"):
        ce_gap(np.full((1, 1), 0.5), [[kuhn], [kuhn]])
    with pytest.raises(UsageError, match="tic_tac_toe is not computed"):
        cce_gap(np.ones((1, 1)), [[board], [board]])
