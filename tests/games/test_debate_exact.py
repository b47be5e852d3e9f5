"""The small debate is exact: it agrees with the same game written for OpenSpiel, whoever judges."""

import pyspiel
import pytest
from support.twins import brute_force, openspiel_values, random_table

from games.registry import make_game
from league.theory.exact.exploitability import head_to_head, nash_conv
from league.theory.exact.sequence_form import sequence_form

BOXES = 3
NAMES = {1: "debate(boxes=3,form=1)", 0: "debate(boxes=3,judge=0,form=1)"}  # by whether a seat judges

# The same game as OpenSpiel's own kind of game, written from the rules, without this project's classes. Boxes from 0.

_INFO = {
    judge: pyspiel.GameInfo(
        num_distinct_actions=BOXES + 1,
        max_chance_outcomes=4,
        num_players=2 + judge,
        min_utility=-1,
        max_utility=1,
        max_game_length=3,
    )
    for judge in (0, 1)
}


def _type(judge):
    return pyspiel.GameType(
        short_name=f"python_small_debate_{judge}",
        long_name="Small debate",
        dynamics=pyspiel.GameType.Dynamics.SEQUENTIAL,
        chance_mode=pyspiel.GameType.ChanceMode.EXPLICIT_STOCHASTIC,
        information=pyspiel.GameType.Information.IMPERFECT_INFORMATION,
        utility=pyspiel.GameType.Utility.GENERAL_SUM,
        reward_model=pyspiel.GameType.RewardModel.TERMINAL,
        max_num_players=2 + judge,
        min_num_players=2 + judge,
        provides_information_state_string=True,
        provides_information_state_tensor=False,
        provides_observation_string=False,
        provides_observation_tensor=False,
    )


class OpenSpielDebate(pyspiel.Game):
    judge = 1

    def __init__(self, params=None):
        super().__init__(_type(self.judge), _INFO[self.judge], params or {})

    def new_initial_state(self):
        return OpenSpielState(self, self.judge)


class OpenSpielDebateOfTwo(OpenSpielDebate):
    judge = 0


class OpenSpielState(pyspiel.State):
    def __init__(self, game, judge):
        super().__init__(game)
        self.judge, self.prize, self.claims, self.opened, self.verdict = judge, None, None, [], None

    def current_player(self):
        if self.claims is None:
            return pyspiel.PlayerId.CHANCE
        if len(self.opened) < 2:
            return len(self.opened)
        if self.verdict is None:
            return 2 if self.judge else pyspiel.PlayerId.CHANCE
        return pyspiel.PlayerId.TERMINAL

    def _pairs(self):
        wrong = [box for box in range(BOXES) if box != self.prize]
        return [pair for box in wrong for pair in ((self.prize, box), (box, self.prize))]

    def _possible(self):
        return [self.prize] if self.prize in self.opened else [box for box in self.claims if box not in self.opened]

    def chance_outcomes(self):
        count = BOXES if self.prize is None else 4 if self.claims is None else len(self._possible())
        return [(number, 1 / count) for number in range(count)]

    def _legal_actions(self, player):
        if player < 0:
            return [number for number, _ in self.chance_outcomes()]
        return list(range(BOXES + (player < 2)))

    def _apply_action(self, action):
        if self.prize is None:
            self.prize = action
        elif self.claims is None:
            self.claims = self._pairs()[action]
        elif len(self.opened) < 2:
            self.opened.append(action)  # the last: nothing
        else:
            self.verdict = action if self.judge else self._possible()[action]

    def _action_to_string(self, player, action):
        return str(action)

    def is_terminal(self):
        return self.verdict is not None

    def returns(self):
        if self.verdict is None:
            return [0.0] * (2 + self.judge)
        heeded = [
            0.0 if self.verdict not in self.claims else 1.0 if self.verdict == box else -1.0 for box in self.claims
        ]
        return heeded + [float(self.verdict == self.prize)] * self.judge

    def information_state_string(self, player=None):
        player = self.current_player() if player is None else player
        seen = [(box, box == self.prize) for box in self.opened]
        return f"{player}{self.prize if player < 2 else ''}{self.claims}{seen}"

    def __str__(self):
        return f"{self.prize}{self.claims}{self.opened}{self.verdict}"


@pytest.mark.parametrize("twin", [OpenSpielDebate, OpenSpielDebateOfTwo])
def test_the_small_debate_agrees_with_the_same_game_written_for_openspiel(twin):
    kind, name = _type(twin.judge), NAMES[twin.judge]
    if kind.short_name not in pyspiel.registered_names():
        pyspiel.register_game(kind, twin)
    table = random_table(name, 3)
    states, expected, best = openspiel_values(pyspiel.load_game(kind.short_name), table)
    tables = [table] * (2 + twin.judge)
    assert head_to_head(tables) == pytest.approx(expected, abs=1e-9)
    assert nash_conv(table) == pytest.approx(sum(best) - sum(expected), abs=1e-9)
    assert head_to_head(tables) == pytest.approx(tuple(brute_force(make_game(name).undealt(), table)), abs=1e-12)
    assert states == len(sequence_form(name).keys)
