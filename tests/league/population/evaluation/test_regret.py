"""Regret against Blum and Mansour's definitions, and against the equilibrium gaps that it must equal."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
from typing import Any

import numpy as np
import pyspiel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena.records import Turn
from games.common.errors import UsageError
from games.openspiel.repeated import stage_game
from games.registry import make_game
from league.cli import main
from league.cli.measuring.regret import _per_round, sequences_of_matches, sequences_of_rounds
from league.config import RolesConfig
from league.config.load import seat_roles
from league.population.evaluation.head_to_head import compare
from league.population.evaluation.regret import external_regret, regret_growth, swap_regret, trend_p_value
from league.population.players.engines import Engines
from league.population.players.player import Player, resolve
from league.theory.exact.exploitability import head_to_head
from league.theory.solvers import EmpiricalGame, gaps
from league.training.evidence.counterfactuals import seat_rounds


def random_rounds(rounds: int, alternatives: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    return generator.dirichlet(np.ones(alternatives), rounds), generator.normal(size=(rounds, alternatives))


def test_a_worked_example() -> None:
    """Left, left, right, where right, left and left would have paid 1: left has 2 in the end, right 1, the player 1."""
    plays = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    payoffs = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]])
    np.testing.assert_allclose(external_regret(plays, payoffs), [1.0, 0.0, 1.0])
    np.testing.assert_allclose(swap_regret(plays, payoffs), [1.0, 0.0, 1.0])


def test_swapping_can_gain_where_no_fixed_alternative_does() -> None:
    """Always the one that does not pay: swapping both gains every round, either one alone half of them."""
    plays = np.tile(np.eye(2), (10, 1))
    payoffs = 1.0 - plays
    assert external_regret(plays, payoffs)[-1] == pytest.approx(10.0)
    assert swap_regret(plays, payoffs)[-1] == pytest.approx(20.0)


def test_external_regret_is_negative_for_who_changes_well() -> None:
    plays = np.tile(np.eye(2), (10, 1))
    assert external_regret(plays, plays)[-1] == pytest.approx(-10.0)
    assert swap_regret(plays, plays)[-1] == 0.0


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 8), st.integers(1, 3), st.integers(0, 10_000))
def test_regrets_are_the_best_of_all_changes_counted_out(rounds: int, alternatives: int, seed: int) -> None:
    plays, payoffs = random_rounds(rounds, alternatives, seed)
    earned = sum(plays[t] @ payoffs[t] for t in range(rounds))
    fixed = max(sum(payoffs[t, a] for t in range(rounds)) for a in range(alternatives))
    maps = itertools.product(range(alternatives), repeat=alternatives)
    swapped = max(
        sum(plays[t, a] * payoffs[t, to[a]] for t in range(rounds) for a in range(alternatives)) for to in maps
    )
    external, swap = external_regret(plays, payoffs), swap_regret(plays, payoffs)
    assert external[-1] == pytest.approx(fixed - earned)
    assert swap[-1] == pytest.approx(swapped - earned)
    assert (swap >= external - 1e-9).all()
    assert swap.min() >= 0.0


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 30), st.integers(0, 10_000))
def test_mean_regret_is_the_gap_of_the_empirical_play(rounds: int, seed: int) -> None:
    """The frequencies of joint play are an ε-(C)CE with ε the regret a round (Blum and Mansour, section 2)."""
    generator = np.random.default_rng(seed)
    values = generator.normal(size=(2, 3, 4))
    rows, columns = generator.integers(3, size=rounds), generator.integers(4, size=rounds)
    joint = np.zeros((3, 4))
    np.add.at(joint, (rows, columns), 1.0 / rounds)
    sides = [(np.eye(3)[rows], values[0][:, columns].T), (np.eye(4)[columns], values[1][rows])]
    for player, (plays, payoffs) in enumerate(sides):
        coarse, correlated = (gaps(EmpiricalGame(values), joint, concept)[player] for concept in ("cce", "ce"))
        assert max(external_regret(plays, payoffs)[-1], 0.0) / rounds == pytest.approx(coarse)
        assert swap_regret(plays, payoffs)[-1] / rounds == pytest.approx(correlated)


def test_hedge_keeps_its_bound() -> None:
    """Exponential weights with rate sqrt(8 ln A / T) have external regret of at most sqrt(T ln A / 2) (payoffs in
    [0, 1]; Cesa-Bianchi and Lugosi 2006, theorem 2.2), also against payoffs made to hurt it.
    """
    rounds, alternatives = 500, 4
    rate = np.sqrt(8 * np.log(alternatives) / rounds)
    plays, payoffs, totals = [], [], np.zeros(alternatives)
    for _ in range(rounds):
        weights = np.exp(rate * (totals - totals.max()))
        plays.append(weights / weights.sum())
        payoffs.append((np.arange(alternatives) == plays[-1].argmin()).astype(float))
        totals = totals + payoffs[-1]
    regret = external_regret(np.array(plays), np.array(payoffs))[-1]
    assert 0.0 < regret <= np.sqrt(rounds * np.log(alternatives) / 2)


def test_what_is_no_distribution_is_refused() -> None:
    with pytest.raises(ValueError, match="one shape"):
        external_regret(np.ones((3, 1)), np.ones((2, 1)))
    with pytest.raises(ValueError, match="distribution"):
        swap_regret(np.ones((3, 2)), np.ones((3, 2)))
    with pytest.raises(ValueError, match="finite payoff"):
        swap_regret(np.ones((1, 1)), np.full((1, 1), np.nan))


def sequences(curve: np.ndarray, count: int, noise: float) -> np.ndarray:
    return curve * (1.0 + noise * np.random.default_rng(0).normal(size=(count, 1)))


@pytest.mark.parametrize("exponent", [0.25, 0.5, 1.0])
def test_the_exponent_of_a_power_law_is_found(exponent: float) -> None:
    grown = regret_growth(sequences(3.0 * np.arange(1.0, 101.0) ** exponent, 5, 0.1))
    assert grown.exponent is not None
    assert grown.exponent.mean == pytest.approx(exponent)
    assert grown.trend == pytest.approx(2.0**-99 if exponent < 1.0 else 1.0)


def test_the_exponents_interval_is_the_jackknifes() -> None:
    """Curves t and 2 t^(1/2): leaving one out leaves the other, so b = 1/2 or 1, and half is t(1) * |1 - 1/2| / 2."""
    rounds = np.arange(1.0, 51.0)
    grown = regret_growth(np.stack([rounds, 2.0 * np.sqrt(rounds)]))
    assert grown.exponent is not None
    assert grown.exponent.high is not None
    assert grown.exponent.high - grown.exponent.mean == pytest.approx(12.7062 * 0.25, rel=1e-4)


def test_the_trend_is_the_binomial_tail() -> None:
    """R(t)/t = 1, 1/2, 1, 3/4 falls in two of three steps: P = (3 + 1) / 2^3."""
    assert trend_p_value(np.array([1.0, 1.0, 3.0, 3.0])) == pytest.approx(0.5)
    assert trend_p_value(np.array([1.0])) is None


def test_a_regret_that_is_not_positive_has_no_exponent() -> None:
    assert regret_growth(-np.ones((3, 10))).exponent is None


def test_hedge_grows_with_an_exponent_near_a_half_against_coins() -> None:
    """Regret against fair coins is Θ(√T) for whoever plays (Cesa-Bianchi and Lugosi 2006, theorem 3.7)."""
    payoffs = np.random.default_rng(3).integers(0, 2, size=(200, 400, 2)).astype(float)
    even = np.full((400, 2), 0.5)
    exponent = regret_growth(np.stack([external_regret(even, rounds) for rounds in payoffs])).exponent
    assert exponent is not None
    assert exponent.low is not None
    assert exponent.high is not None
    assert exponent.low < 0.5 < exponent.high
    assert exponent.high - exponent.low < 0.15


REPEATED = "repeated_game(stage_game={}(),num_repetitions=8)"


@pytest.mark.parametrize("stage", ["matrix_mp", "matrix_brps", "matrix_pd", "matrix_shapleys_game"])
def test_the_stage_game_is_openspiels(stage: str) -> None:
    known, source = stage_game(REPEATED.format(stage)), pyspiel.load_matrix_game(stage)
    assert known.rounds == 8
    np.testing.assert_array_equal(known.payoffs[0], source.row_utilities())
    np.testing.assert_array_equal(known.payoffs[1], source.col_utilities())


def test_what_was_played_pays_what_the_match_paid() -> None:
    spec, engines = make_game(REPEATED.format("matrix_brps")).spec, Engines()
    rounds = sequences_of_rounds(resolve("random", spec, engines), resolve("random", spec, engines), 40, seed=1)
    result = compare((resolve("random", spec, engines),) * 2, 40, seed=1)
    paid = [e.returns[0] for m, e in zip(result.matches, result.episodes, strict=True) if m.seating == (0, 1)]
    np.testing.assert_allclose((rounds[0].plays * rounds[0].payoffs).sum(axis=(1, 2)), paid)
    for episode in result.episodes[:3]:
        second = seat_rounds(stage_game(spec.name), episode.turns, 1)
        earned = [turn.reward for turn in episode.turns if turn.seat == 1]
        np.testing.assert_allclose(second.payoffs[np.arange(8), second.actions], earned)


def test_a_round_that_a_forfeit_cut_short_is_left_out() -> None:
    turns = [Turn(seat, "", "", "", (), "", action, 0.0, None) for seat, action in enumerate(["heads", "tails"])]
    cut = [*turns, turns[0]._replace(action=None), turns[0]]
    assert seat_rounds(stage_game(REPEATED.format("matrix_mp")), cut, 0).payoffs.tolist() == [[-1.0, 1.0]]


def regrets(*words: str) -> dict[str, Any]:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main(["regret", *words, "--json"]) == 0
    return json.loads(out.getvalue())["roles"]


def test_who_never_changes_regrets_every_round_and_who_is_right_none() -> None:
    """Matching pennies: the first seat wins 1 by matching. Always the wrong side loses 2 a round."""
    game = REPEATED.format("matrix_mp")
    roles = regrets("always:heads", "always:tails", "--game", game, "--matches", "4")
    assert (roles["first"]["external"], roles["first"]["swap"], roles["first"]["external_exponent"]) == (2.0, 2.0, 1.0)
    assert roles["second"]["external"] == 0.0
    assert roles["second"]["external_exponent"] is None
    assert roles["second"]["uniform"] == 1.0


def test_regret_over_matches_is_the_exact_difference() -> None:
    """Uniform play is worth 1/8 to Kuhn poker's first seat against itself; either seat might have been a bettor."""
    roles = regrets("random", "random", "--game", "kuhn_poker", "--alternatives", "always:bet", "--matches", "5")
    spec, engines = make_game("kuhn_poker").spec, Engines()
    uniform, bets = (resolve(name, spec, engines).tabulate().table for name in ("random", "always:bet"))
    for seat, role in enumerate(roles.values()):
        values = [
            head_to_head(tables if seat == 0 else tables[::-1])[seat] for tables in ([uniform] * 2, [bets, uniform])
        ]
        assert role["external"] == pytest.approx(max(values) - values[0])
    assert head_to_head([uniform] * 2)[0] == pytest.approx(1 / 8)


class Sure:
    """Knows two ids: "p" always passes, and "b" always bets."""

    def sample(self, requests: Any) -> Any:
        raise AssertionError("the policies are known")

    def distributions(self, requests: Any) -> list[tuple[float, ...]]:
        return [tuple(float((label == "bet") == (r.player == "b")) for label in r.legal) for r in requests]


def test_in_each_seat_what_might_have_been_played_meets_the_rival_of_the_other_seat() -> None:
    """The rival passes when it is first and bets when it is second.

    Against that bet, passing loses the ante of 1, and betting is level by the cards; against that pass, a showdown for
    the antes is level, and a bet wins 1.
    """
    spec, engine = make_game("kuhn_poker").spec, Sure()
    roles = seat_roles(RolesConfig(), spec)
    player = Player("me", spec, engine, roles, ((("p", 0.5), ("b", 0.5)),) * 2)
    rival = Player("rival", spec, engine, roles, ((("p", 1.0),), (("b", 1.0),)))
    first, second = sequences_of_matches(player, rival, [], 6, 0)
    assert first.alternatives == second.alternatives == ("p", "b")
    np.testing.assert_allclose(first.payoffs, np.broadcast_to([-1.0, 0.0], first.payoffs.shape), atol=1e-12)
    np.testing.assert_allclose(second.payoffs, np.broadcast_to([0.0, 1.0], second.payoffs.shape), atol=1e-12)


def test_regret_a_round_has_students_interval_over_sequences() -> None:
    """Three sequences of two rounds end at 2, 4 and 6: 1, 2 and 3 a round, and the half-width is t(2) / √3 = 2.4841."""
    estimate = _per_round(np.array([[1.0, 2.0], [1.0, 4.0], [9.0, 6.0]]))
    assert estimate == pytest.approx((2.0, 2.0 - 2.4841, 2.0 + 2.4841), abs=1e-4)
    assert _per_round(np.array([[1.0, 3.0]])) == (1.5, None, None)


def test_what_cannot_be_regretted_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["regret", "random", "random", "--game", "kuhn_poker"]) == 2
    assert "--alternatives" in capsys.readouterr().err
    with pytest.raises(UsageError, match="no repeated matrix game"):
        stage_game("kuhn_poker")


def test_it_is_told_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    game = REPEATED.format("matrix_mp")
    assert main(["regret", "always:heads", "always:tails", "--game", game, "--matches", "4"]) == 0
    out = capsys.readouterr().out
    assert "external regret +2.000 (95% interval +2.000 to +2.000) a round" in out
    assert "no slower than they do" in out
