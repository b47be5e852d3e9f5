"""The small negotiation is exact: it agrees with the same game written for OpenSpiel, and with brute force."""

import itertools

import pyspiel
import pytest
from support.twins import brute_force, openspiel_values, random_table

from games.registry import make_game
from league.theory.exact.exploitability import PolicyTable, head_to_head, nash_conv, tabulate, uniform_table
from league.theory.exact.sequence_form import sequence_form

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


def test_the_small_variant_agrees_with_the_same_game_written_for_openspiel():
    if _TYPE.short_name not in pyspiel.registered_names():
        pyspiel.register_game(_TYPE, OpenSpielNegotiation)
    table = random_table(SMALL, 3)
    states, expected, best = openspiel_values(pyspiel.load_game(_TYPE.short_name), table)
    assert head_to_head([table, table]) == pytest.approx(expected, abs=1e-9)
    assert nash_conv(table) == pytest.approx(sum(best) - sum(expected), abs=1e-9)
    assert states == len(sequence_form(SMALL).keys)


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
