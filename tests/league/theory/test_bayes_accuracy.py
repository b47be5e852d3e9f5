"""What a Bayesian gets right, worked out by hand in Kuhn poker."""

import pytest

from league.theory.bayes_accuracy import bayes_accuracies
from league.theory.exact.exploitability import PolicyTable, exact_form, uniform_table
from league.theory.exact.turn_values import turn_values

KUHN = "kuhn_poker"


def table(bets):
    """Return who bets, or calls, with the probability ``bets``."""
    return PolicyTable(KUHN, dict.fromkeys(uniform_table(KUHN).probabilities, (1.0 - bets, bets)))


def test_who_bets_surely_or_never_is_known_once_he_has_acted():
    """Seat 0 is right half the time at its first turn and always at its second; seat 1 always. Seat 0, which always
    passes, has its second turn beside the bettor alone: one match in two. So 1/2 of one turn, all of one, all of ½.
    """
    found = bayes_accuracies(table(0.0), [table(0.0), table(1.0)]).type
    assert found.by_turn == pytest.approx({0: 0.75, 1: 1.0})
    assert found.overall == pytest.approx((0.5 + 1.0 + 0.5) / 2.5)


def test_the_next_action_is_predicted_where_there_is_one():
    """Seat 0 bets, and cannot tell who answers: half. Seat 1 is answered by him alone who passed, as it has seen."""
    found = bayes_accuracies(table(1.0), [table(0.0), table(1.0)]).action
    assert found.by_turn == pytest.approx({0: (0.5 + 0.5) / 1.5})
    assert bayes_accuracies(table(1.0), [table(1.0)]).action.overall == pytest.approx(1.0)


def test_of_equal_types_nothing_can_be_known():
    found = bayes_accuracies(table(0.3), [table(0.5)] * 4)
    assert set(found.type.by_turn.values()) == {0.25}
    assert found.action.overall == pytest.approx(0.5)


def test_the_posterior_counts_as_often_as_it_arises():
    """Uniform or bettor, beside one who passes. After a bet the bettor is likelier: right with 1/2 of 3/4 and 1/4 sure.
    Seat 1 sees pass (uniform alone, 1/4) or bet (3/4, of which 1/2 of the bettor). Seat 0's second turn: as a bet.
    """
    found = bayes_accuracies(table(0.0), [table(0.5), table(1.0)]).type
    assert found.by_turn == pytest.approx({0: (0.5 + 0.75) / 2, 1: (0.5 / 0.75)})


def test_a_turn_waits_for_the_others_next_action_alone():
    """Two rounds of a dilemma, moves unseen within a round. One type always cooperates, one defects in the second.

    As first: after its own first turn the other surely cooperates, after its second it is a toss. As second: after its
    first turn comes the other's second move, a toss; after its second nothing. So (1 + 1/2) / 2, 1/2, and 2/3 in all.
    """
    game = "repeated_game(stage_game=matrix_pd(),num_repetitions=2)"
    even = uniform_table(game)
    late = {key: second_round(key) for key in even.probabilities}
    types = [
        PolicyTable(game, dict.fromkeys(even.probabilities, (1.0, 0.0))),
        PolicyTable(game, {key: (0.0, 1.0) if is_late else (1.0, 0.0) for key, is_late in late.items()}),
    ]
    found = bayes_accuracies(even, types)
    assert found.action.by_turn == pytest.approx({0: 0.75, 1: 0.5})
    assert found.action.overall == pytest.approx(2 / 3)
    assert found.type.by_turn == pytest.approx({0: 0.5, 1: 0.5})


def second_round(key):
    """Return whether an information state is one of the second round: its seat has acted before."""
    form = exact_form("repeated_game(stage_game=matrix_pd(),num_repetitions=2)")
    even = [[0.5, 0.5]] * len(form.keys)
    return turn_values(form, even).turns[form.keys.index(key)] == 1
