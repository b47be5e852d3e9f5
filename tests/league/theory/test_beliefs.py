"""Exact beliefs and best responses to them: closed forms of Kuhn poker, published values, and OpenSpiel's answer."""

import numpy as np
import pytest
from open_spiel.python.algorithms.best_response import BestResponsePolicy
from open_spiel.python.policy import TabularPolicy
from support.matches.codes import code_table

from games.common.errors import UsageError
from games.openspiel.game import load_pyspiel
from games.registry import make_game
from league.theory.beliefs import best_response_to, exact_beliefs
from league.theory.exact.exploitability import PolicyTable, best_response_values, head_to_head, mixture, uniform_table
from league.theory.exact.game_value import nash_equilibrium
from league.theory.exact.sequence_form import sequence_form

KUHN = "kuhn_poker"


def always(action, game=KUHN):
    form = sequence_form(game)
    return PolicyTable(
        game, {key: tuple(np.eye(len(ids))[action].tolist()) for key, ids in zip(form.keys, form.legal, strict=True)}
    )


def drawn(game, seed):
    """Return a policy of random probabilities."""
    form, rng = sequence_form(game), np.random.default_rng(seed)
    rows = [tuple(rng.dirichlet(np.full(len(ids), 0.5)).tolist()) for ids in form.legal]
    return PolicyTable(game, dict(zip(form.keys, rows, strict=True)))


PASSES, BETS = always(0), always(1)


def test_the_posterior_is_bayes_rule():
    """Who bets was the bettor with ⅔: he bets surely, the uniform player half the time, and both were as likely."""
    beliefs = exact_beliefs([uniform_table(KUHN), BETS], 0, [0.5, 0.5])
    assert beliefs[0, "1"] == pytest.approx((0.5, 0.5), abs=1e-12)
    assert beliefs[0, "1pb"] == pytest.approx((1 / 3, 2 / 3), abs=1e-12)
    weighed = exact_beliefs([uniform_table(KUHN), BETS], 0, [0.9, 0.1])
    assert weighed[0, "1pb"] == pytest.approx((0.45 / 0.55, 0.1 / 0.55), abs=1e-12)


def test_a_hidden_card_counts_in_the_posterior():
    """Type A bets with the king alone, type B with king and queen. Beside a queen the other holds king or jack: the
    same of both. Beside a jack he holds king or queen: A bets half the time, B always.
    """
    bets = {"A": {"2"}, "B": {"1", "2"}}
    types = [
        PolicyTable(KUHN, {key: (0.0, 1.0) if key[1][0] in cards else (1.0, 0.0) for key in PASSES.probabilities})
        for cards in bets.values()
    ]
    beliefs = exact_beliefs(types, 1, [0.5, 0.5])
    assert beliefs[1, "1b"] == pytest.approx((0.5, 0.5), abs=1e-12)
    assert beliefs[1, "0b"] == pytest.approx((1 / 3, 2 / 3), abs=1e-12)
    assert beliefs[1, "0p"] == pytest.approx((1.0, 0.0), abs=1e-12)


@pytest.mark.parametrize("game", [KUHN, "leduc_poker", "tiny_hanabi", "signalling(rounds=2,form=1)"])
@pytest.mark.parametrize("seat", [0, 1])
def test_its_value_is_that_of_the_best_response_to_the_mixture(game, seat):
    """Of Kuhn's theorem and backward induction, which share no code with the belief."""
    types, prior = [drawn(game, seed) for seed in range(3)], [0.2, 0.5, 0.3]
    response = best_response_to(types, seat, exact_beliefs(types, seat, prior))
    expected = best_response_values(mixture(types, prior))[seat]
    assert np.dot(prior, response.values) == pytest.approx(expected, abs=1e-9)
    for kind, value in zip(types, response.values, strict=True):
        seated = [response.table, kind] if seat == 0 else [kind, response.table]
        assert head_to_head(seated)[seat] == pytest.approx(value, abs=1e-9)


def test_openspiel_answers_a_mixture_as_well():
    types, prior = [uniform_table(KUHN), BETS, PASSES], [0.5, 0.25, 0.25]
    mixed = mixture(types, prior)
    game = load_pyspiel(KUHN)
    policy = TabularPolicy(game)
    for key, row in mixed.probabilities.items():
        policy.policy_for_key(key[1])[:] = row
    for seat in (0, 1):
        theirs = BestResponsePolicy(game, seat, policy).value(game.new_initial_state())
        ours = best_response_to(types, seat, exact_beliefs(types, seat, prior))
        assert np.dot(prior, ours.values) == pytest.approx(theirs, abs=1e-9)


def test_the_best_response_to_uniform_play_has_the_published_values():
    """NashConv of uniform Kuhn is 11/12 = 1/2 + 5/12 (Lanctot et al. 2017)."""
    uniform = [uniform_table(KUHN)]
    values = [best_response_to(uniform, seat, exact_beliefs(uniform, seat, [1.0])).values[0] for seat in (0, 1)]
    assert values == pytest.approx([0.5, 5 / 12], abs=1e-12)


def test_it_beats_a_fixed_equilibrium_beside_the_weak():
    """Who always passes loses the ante to every bet: 1 a match; an equilibrium bets seldom."""
    types = [PASSES, BETS]
    equilibrium = nash_equilibrium(make_game(KUHN).spec)
    response = best_response_to(types, 0, exact_beliefs(types, 0, [0.5, 0.5]))
    assert best_response_to([PASSES], 0, exact_beliefs([PASSES], 0, [1.0])).values == (1.0,)
    fixed = np.mean([head_to_head([equilibrium, kind])[0] for kind in types])
    assert np.mean(response.values) > fixed + 0.1


@pytest.mark.parametrize("seat", [0, 1])
def test_a_partner_is_understood_once_its_code_shows(seat):
    """Two codes have the word of one state of three in common. In round 1 the seats understand each other in that state
    and by chance in half of the others, which show the code: ⅔. In round 2 they do so surely if it has shown: ⅔ + ⅓ ⅔.
    """
    game = "signalling(rounds=2,form=1)"
    types = [code_table(game, code) for code in [(0, 1, 2), (0, 2, 1)]]
    response = best_response_to(types, seat, exact_beliefs(types, seat, [0.5, 0.5]))
    assert np.mean(response.values) == pytest.approx(14 / 9, abs=1e-9)
    for kind in types:
        assert best_response_to([kind], seat, exact_beliefs([kind], seat, [1.0])).values == pytest.approx((2.0,))


def test_a_stranger_is_answered_by_those_who_err():
    """None of the types bets first; the belief stays a distribution, and the king calls anyway."""
    beliefs = exact_beliefs([PASSES], 1, [1.0])
    assert beliefs[1, "2b"] == pytest.approx((1.0,))
    assert best_response_to([PASSES], 1, beliefs).table.probabilities[1, "2b"] == (0.0, 1.0)


def test_a_wrong_belief_costs_what_it_is_wrong_by():
    """Beside one who always bets, it costs to believe in one who always passes."""
    types = [BETS, always(0)]
    wrong = dict.fromkeys(exact_beliefs(types, 0, [0.5, 0.5]), (0.0, 1.0))
    right = dict.fromkeys(wrong, (1.0, 0.0))
    assert best_response_to(types, 0, wrong).values[0] < best_response_to(types, 0, right).values[0]


def test_what_cannot_be_known_is_refused_in_a_sentence():
    with pytest.raises(UsageError, match="two seats"):
        exact_beliefs([uniform_table("kuhn_poker(players=3)")], 0, [1.0])
    with pytest.raises(UsageError, match="enumerated as boards"):
        exact_beliefs([uniform_table("tic_tac_toe")], 0, [1.0])
    with pytest.raises(ValueError, match="distribution over 2 types"):
        exact_beliefs([PASSES, BETS], 0, [1.0])
