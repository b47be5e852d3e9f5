"""Counterfactuals of messages: leave-one-out by hand, and the exact advantage of Kuhn poker's turns."""

import numpy as np
import pyspiel
import pytest

from arena.records import MatchRequest, Turn
from arena.scheduler import play
from arena.submatches import positions
from games.common.seeds import derive_seed
from games.registry import make_game
from league.config import RolesConfig
from league.config.load import seat_roles
from league.lab.credit.matches import TablePlayer
from league.theory.exact.exploitability import uniform_table
from learners.trajectories import to_trajectories
from learners.values.alternatives import TriedAlternatives, answer, leave_one_out
from learners.values.continuations import plays

ROLES = seat_roles(RolesConfig(), make_game("kuhn_poker").spec)
SCALE = {"kuhn_poker": 2.0}


def uniform(matches):
    """Return matches of uniform play, their trajectories, and what plays on from them."""
    engine = TablePlayer(uniform_table("kuhn_poker"))
    requests = [
        MatchRequest(i, "kuhn_poker", derive_seed("deal", i), derive_seed("draw", i), ("main", "main"), (True, True))
        for i in range(matches)
    ]
    played = plays(ROLES, lambda _: engine)
    episodes = play(requests, roles_of=lambda _: ROLES, engine_of=lambda _: engine, make_game=make_game)
    return {e.request.index: e for e in episodes}, to_trajectories(episodes, lambda _: ROLES, SCALE), played


def test_left_out_one_by_one_the_credits_of_one_sample_sum_to_nothing():
    """RLOO's identity: each less the mean of the others is n / (n - 1) times each less the mean of all."""
    returns = [2.0, -1.0, 1.0, -2.0, 1.0]
    credit = [leave_one_out([own], returns[:i] + returns[i + 1 :]) for i, own in enumerate(returns)]
    assert sum(credit) == pytest.approx(0.0, abs=1e-12)
    assert credit == pytest.approx([5 / 4 * (own - np.mean(returns)) for own in returns])


def exact_advantage(episode, place, seat):
    """Return OpenSpiel's Q(h, a) - V(h) of a turn under uniform play."""
    game = make_game("kuhn_poker")
    play_uniform = pyspiel.UniformRandomPolicy(game.pyspiel_game)
    values = [
        pyspiel.expected_returns(at.pyspiel_state(), play_uniform, -1, True)[seat] for at in positions(game, episode)
    ]
    return values[place + 1] - values[place]


def test_with_many_alternatives_a_turn_is_credited_with_its_exact_advantage():
    """That of the whole position, whose deal all alternatives share."""
    episodes, trajectories, played = uniform(4)
    found = TriedAlternatives(played, 300, 300, episodes, SCALE).estimate(trajectories)
    for trajectory, credit in zip(trajectories, found.contributions, strict=True):
        exact = [exact_advantage(episodes[trajectory.match], k, trajectory.seat) / 2 for k in trajectory.order]
        assert credit == pytest.approx(exact, abs=0.2)


def test_the_match_itself_tells_what_was_said_and_equal_seeds_draw_equal_alternatives():
    episodes, trajectories, played = uniform(3)
    one, again = (TriedAlternatives(played, 2, 1, episodes, SCALE, seed=5).estimate(trajectories) for _ in range(2))
    assert one.contributions == again.contributions
    assert {len(row) for rows in one.answers for row in rows} == {3}
    for trajectory, credit in zip(trajectories, one.contributions, strict=True):
        own = episodes[trajectory.match].returns[trajectory.seat]
        others = [own - 2 * c for c in credit]  # a mean of two returns of Kuhn poker
        assert all(2 * other == pytest.approx(round(2 * other)) for other in others)


def test_the_answer_is_the_next_seats_turn_after_what_is_said():
    def turn(seat, action="x", tool=""):
        return Turn(seat, "", "p", "", (), "x", action, 0.0, None, tool)

    turns = [turn(0, None), turn(0, "look()", "look"), turn(0), turn(1), turn(1)]
    assert answer(turns, 0) is turns[3], "after a refused reply, and after a call of a tool"
    assert answer(turns, 2) is turns[3]
    assert answer(turns, 3) is None, "the same seat has the next turn"
    assert answer(turns, 4) is None, "the match is over"
    assert answer([turn(0, None)], 0) is None, "nothing legal was said"
