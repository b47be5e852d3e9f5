"""The small hidden roles are exact: they agree with the same game written for OpenSpiel, and with brute force."""

import itertools

import pyspiel
import pytest
from support.twins import brute_force, openspiel_values, random_table

from games.registry import make_game
from league.theory.exact.exploitability import head_to_head, nash_conv, uniform_table
from league.theory.exact.sequence_form import sequence_form

SMALL = "hidden_roles(seats=3,days=1,form=1)"
SILENT = "hidden_roles(seats=3,days=1,rounds=0,form=1)"

# The same small game as OpenSpiel's own kind of game, written from the rules, without this project's classes.
# Actions: to suspect a place or nobody (3), to vote for a place (from 4) or nobody (7). A clue is right 6 times in 10.

_INFO = pyspiel.GameInfo(
    num_distinct_actions=8, max_chance_outcomes=3, num_players=3, min_utility=-1, max_utility=1, max_game_length=6
)


def _type(talk):
    return pyspiel.GameType(
        short_name=f"python_small_roles_{talk}",
        long_name="Small hidden roles",
        dynamics=pyspiel.GameType.Dynamics.SEQUENTIAL,
        chance_mode=pyspiel.GameType.ChanceMode.EXPLICIT_STOCHASTIC,
        information=pyspiel.GameType.Information.IMPERFECT_INFORMATION,
        utility=pyspiel.GameType.Utility.GENERAL_SUM,
        reward_model=pyspiel.GameType.RewardModel.TERMINAL,
        max_num_players=3,
        min_num_players=3,
        provides_information_state_string=True,
        provides_information_state_tensor=False,
        provides_observation_string=False,
        provides_observation_tensor=False,
    )


class OpenSpielRoles(pyspiel.Game):
    talk = 3

    def __init__(self, params=None):
        super().__init__(_type(self.talk), _INFO, params or {})

    def new_initial_state(self):
        return OpenSpielState(self, self.talk)


class OpenSpielSilence(OpenSpielRoles):
    talk = 0


class OpenSpielState(pyspiel.State):
    def __init__(self, game, talk):
        super().__init__(game)
        self.talk, self.drawn, self.moves = talk, [], []  # drawn: the places of wolf and villagers, then two clues

    def current_player(self):
        if len(self.drawn) < 5:
            return pyspiel.PlayerId.CHANCE
        if len(self.moves) == self.talk + 3:
            return pyspiel.PlayerId.TERMINAL
        place = (len(self.moves) - self.talk) if len(self.moves) >= self.talk else len(self.moves)
        return self.drawn[:3].index(place)

    def chance_outcomes(self):
        if len(self.drawn) < 3:
            free = [place for place in range(3) if place not in self.drawn]
            return [(place, 1 / len(free)) for place in free]
        mine = self.drawn[len(self.drawn) - 2]
        return [(place, 0.6 if place == self.drawn[0] else 0.4) for place in range(3) if place != mine]

    def _legal_actions(self, player):
        if player < 0:
            return [place for place, _ in self.chance_outcomes()]
        mine, first = self.drawn[player], 0 if len(self.moves) < self.talk else 4
        return [first + place for place in range(4) if place != mine]

    def _apply_action(self, action):
        (self.drawn if len(self.drawn) < 5 else self.moves).append(action)

    def _action_to_string(self, player, action):
        return str(action)

    def is_terminal(self):
        return self.current_player() == pyspiel.PlayerId.TERMINAL

    def returns(self):
        if not self.is_terminal():
            return [0.0] * 3
        votes = [action - 4 for action in self.moves[self.talk :]]
        most = max(votes, key=votes.count)
        wolf_is_out = most == self.drawn[0] and votes.count(most) > 1
        return [-1.0, 1.0, 1.0] if wolf_is_out else [1.0, -1.0, -1.0]

    def information_state_string(self, player=None):
        player = self.current_player() if player is None else player
        clue = self.drawn[player + 2 : player + 3] if player else []
        return f"{player}{self.drawn[player]}{clue}{self.moves[: self.talk]}"

    def __str__(self):
        return f"{self.drawn}{self.moves}"


@pytest.mark.parametrize(
    ("name", "twin"), [(SILENT, OpenSpielSilence), pytest.param(SMALL, OpenSpielRoles, marks=pytest.mark.thorough)]
)
def test_the_small_variants_agree_with_the_same_games_written_for_openspiel(name, twin):
    kind = _type(twin.talk)
    if kind.short_name not in pyspiel.registered_names():
        pyspiel.register_game(kind, twin)
    table = random_table(name, 3)
    states, expected, best = openspiel_values(pyspiel.load_game(kind.short_name), table)
    assert head_to_head([table] * 3) == pytest.approx(expected, abs=1e-9)
    assert nash_conv(table) == pytest.approx(sum(best) - sum(expected), abs=1e-9)
    assert states == len(sequence_form(name).keys)


@pytest.mark.parametrize("name", [SILENT, pytest.param(SMALL, marks=pytest.mark.thorough)])
def test_exact_values_agree_with_brute_force(name):
    for table in (uniform_table(name), random_table(name, 5)):
        values = brute_force(make_game(name).undealt(), table)
        assert head_to_head([table] * 3) == pytest.approx(tuple(values), abs=1e-12)


def test_votes_drawn_by_lot_find_the_wolf_once_in_nine():
    """Each of three votes for one of the others or for nobody, and the wolf is out if both villagers name it."""
    votes = itertools.product(("wolf", "other", "nobody"), ("wolf", "other", "nobody"), ("first", "second", "nobody"))
    found = sum(first == second == "wolf" for first, second, _ in votes) / 27
    wolf = 1.0 - 2.0 * found
    assert head_to_head([uniform_table(SILENT)] * 3) == pytest.approx((wolf, -wolf, -wolf), abs=1e-12)
    assert found == 1 / 9
