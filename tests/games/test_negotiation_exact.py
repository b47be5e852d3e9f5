"""The small negotiation is exact: it agrees with the same game written for OpenSpiel, and with brute force."""

import itertools

import numpy as np
import pyspiel
import pytest

from games.registry import make_game
from league.exact.exploitability import PolicyTable, head_to_head, nash_conv, tabulate, uniform_table
from league.exact.sequence_form import sequence_form

SMALL = "simple_negotiation(goods=2,stock=1,most=2,turns=3,form=1)"

# The same small game as OpenSpiel's own kind of game, written from the rules, without this project's classes.

_TRADES = [net for net in itertools.product((-1, 0, 1), repeat=2) if any(net)]
_TYPE = pyspiel.GameType(
    short_name="python_small_negotiation",
    long_name="Small negotiation",
    dynamics=pyspiel.GameType.Dynamics.SEQUENTIAL,
    chance_mode=pyspiel.GameType.ChanceMode.EXPLICIT_STOCHASTIC,
    information=pyspiel.GameType.Information.IMPERFECT_INFORMATION,
    utility=pyspiel.GameType.Utility.GENERAL_SUM,
    reward_model=pyspiel.GameType.RewardModel.TERMINAL,
    max_num_players=2,
    min_num_players=2,
    provides_information_state_string=True,
    provides_information_state_tensor=False,
    provides_observation_string=False,
    provides_observation_tensor=False,
)
_INFO = pyspiel.GameInfo(
    num_distinct_actions=10, max_chance_outcomes=2, num_players=2, min_utility=-4, max_utility=4, max_game_length=3
)


class OpenSpielNegotiation(pyspiel.Game):
    def __init__(self, params=None):
        super().__init__(_TYPE, _INFO, params or {})

    def new_initial_state(self):
        return OpenSpielState(self)


class OpenSpielState(pyspiel.State):
    def __init__(self, game):
        super().__init__(game)
        self.drawn, self.moves = [], []

    def current_player(self):
        if len(self.drawn) < 4:
            return pyspiel.PlayerId.CHANCE
        over = len(self.moves) == 3 or (self.moves and self.moves[-1] >= 8)
        return pyspiel.PlayerId.TERMINAL if over else len(self.moves) % 2

    def chance_outcomes(self):
        return [(0, 0.5), (1, 0.5)]

    def _legal_actions(self, player):
        return [*(range(8) if len(self.moves) < 2 else ()), *((8,) if self.moves else ()), 9]

    def _apply_action(self, action):
        if len(self.drawn) < 4:
            self.drawn.append(action + 1)
        else:
            self.moves.append(action)

    def _action_to_string(self, player, action):
        return str(action)

    def is_terminal(self):
        return self.current_player() == pyspiel.PlayerId.TERMINAL

    def returns(self):
        if not self.moves or self.moves[-1] != 8:
            return [0.0, 0.0]
        net, proposer = _TRADES[self.moves[-2]], len(self.moves) % 2
        gains = [sum(v * n for v, n in zip(self.drawn[2 * s : 2 * s + 2], net, strict=True)) for s in (0, 1)]
        return [float(gain if seat == proposer else -gain) for seat, gain in enumerate(gains)]

    def information_state_string(self, player=None):
        player = self.current_player() if player is None else player
        return f"{player}{self.drawn[2 * player : 2 * player + 2]}{self.moves}"

    def __str__(self):
        return f"{self.drawn}{self.moves}"


def random_table(seed):
    rng = np.random.default_rng(seed)
    form = sequence_form(SMALL)
    rows = {key: tuple(rng.dirichlet(np.ones(len(ids)))) for key, ids in zip(form.keys, form.legal, strict=True)}
    return PolicyTable(SMALL, rows)


def openspiel_policy(game, table):
    """Return the table as a policy of OpenSpiel's game, found by the position of each of its information states."""
    rows, stack = {}, [(game.new_initial_state(), make_game(SMALL).undealt())]
    while stack:
        state, match = stack.pop()
        if state.is_terminal():
            continue
        for action in state.legal_actions():
            child = match.copy()
            if state.is_chance_node():
                child.apply_chance(str(action + 1))
            else:
                seat = state.current_player()
                ids = match.legal_ids()
                assert sorted(ids) == state.legal_actions()
                row = table.probabilities[seat, match.information_state(seat)]
                rows[state.information_state_string(seat)] = list(zip(sorted(ids), row, strict=True))
                child.apply(match.legal_actions()[ids.index(action)])
            stack.append((state.child(action), child))
    return rows


def test_the_small_variant_agrees_with_the_same_game_written_for_openspiel():
    if _TYPE.short_name not in pyspiel.registered_names():
        pyspiel.register_game(_TYPE, OpenSpielNegotiation)
    from open_spiel.python.algorithms import best_response, expected_game_score
    from open_spiel.python.policy import TabularPolicy, tabular_policy_from_callable

    game = pyspiel.load_game(_TYPE.short_name)
    table = random_table(3)
    rows = openspiel_policy(game, table)
    policy = tabular_policy_from_callable(
        game, lambda state: dict(rows[state.information_state_string(state.current_player())])
    )
    assert isinstance(policy, TabularPolicy)
    expected = expected_game_score.policy_value(game.new_initial_state(), [policy] * 2)
    assert head_to_head([table, table]) == pytest.approx(tuple(expected), abs=1e-9)
    best = [best_response.BestResponsePolicy(game, seat, policy).value(game.new_initial_state()) for seat in (0, 1)]
    assert nash_conv(table) == pytest.approx(sum(best) - sum(expected), abs=1e-9)
    assert len(rows) == len(sequence_form(SMALL).keys)


def brute_force(match, table):
    """Return the expected returns by going through every course of a match."""
    if outcomes := match.chance_outcomes():
        branches = [(p, match.copy(), "apply_chance", outcome) for outcome, p in outcomes]
    elif (seat := match.to_act()) is None:
        return np.array(match.returns())
    else:
        row = table.probabilities[seat, match.information_state(seat)]
        order = [label for _, label in sorted(zip(match.legal_ids(), match.legal_actions(), strict=True))]
        branches = [(p, match.copy(), "apply", label) for label, p in zip(order, row, strict=True)]
    total = np.zeros(2)
    for probability, child, move, label in branches:
        getattr(child, move)(label)
        total += probability * brute_force(child, table)
    return total


def test_exact_values_agree_with_brute_force_and_with_matches():
    table = uniform_table(SMALL)
    assert head_to_head([table, table]) == pytest.approx(
        tuple(brute_force(make_game(SMALL).undealt(), table)), abs=1e-12
    )
    asked = tabulate(SMALL, lambda positions: [(1 / len(p.legal_ids()),) * len(p.legal_ids()) for _, p in positions])
    assert asked.probabilities.keys() == table.probabilities.keys()
    assert all(row == pytest.approx(table.probabilities[key]) for key, row in asked.probabilities.items())
    assert nash_conv(table) > 0.1


def test_a_seat_alone_cannot_gain_where_the_other_always_leaves():
    leave = {
        key: tuple(float(number == len(ids) - 1) for number in range(len(ids)))
        for key, ids in zip(sequence_form(SMALL).keys, sequence_form(SMALL).legal, strict=True)
    }
    assert nash_conv(PolicyTable(SMALL, leave)) == 0.0
