"""Teams without an opponent: the same held-out deals for each, and figures worked by hand."""

import pytest

from arena.records import EndReason, Episode
from games.registry import make_game
from league.config import RolesConfig
from league.config.load import seat_roles
from league.population.evaluation.teams import team_matches, team_metrics
from roles.cards import load_roles

GAME = "lookup_chain(people=6,relations=2)"
SPEC = make_game(GAME).spec
ANCHORS = ("scripted:optimal", "random")


def requests(first_index=10):
    (below,) = SPEC.submatch_games
    roles = {GAME: seat_roles(RolesConfig(), SPEC), below: load_roles(make_game(below).spec)}
    return team_matches(SPEC, roles, ANCHORS, 3, run_seed=0, first_index=first_index)


def test_every_team_plays_the_same_deals_with_draws_of_its_own():
    drawn = requests()
    assert [request.index for request in drawn] == list(range(10, 19))
    teams = [drawn[start : start + 3] for start in (0, 3, 6)]
    deals = [[request.deal_seed for request in team] for team in teams]
    assert deals[0] == deals[1] == deals[2]
    assert len(set(deals[0])) == 3
    assert len({request.sample_seed for request in drawn}) == 9
    assert [{request.players for request in team} for team in teams] == [{("main",)}, {(ANCHORS[0],)}, {("random",)}]
    assert [request.cast[0].players for request in drawn[::3]] == [("main",), ("scripted:optimal",), ("random",)]
    assert not any(trained for request in drawn for trained in (*request.trained, *request.cast[0].trained))


def test_held_out_returns_and_scores_deal_by_deal():
    """Live 1.0, 0.1, 0.5 against 1.0, 1.0, 0.1 (a draw, a loss, a win), and against 0.1, 0.1, 0.1 (won, drawn, won)."""
    returns = [1.0, 0.1, 0.5, 1.0, 1.0, 0.1, 0.1, 0.1, 0.1]
    episodes = [
        Episode(request, (), (gain,), EndReason.FINISHED) for request, gain in zip(requests(), returns, strict=True)
    ]
    assert team_metrics(SPEC, ANCHORS, episodes) == pytest.approx(
        {
            f"{GAME}/held_out_return": 1.6 / 3,
            f"{GAME}/held_out_return_of_scripted:optimal": 0.7,
            f"{GAME}/score_against_scripted:optimal": 0.5,
            f"{GAME}/held_out_return_of_random": 0.1,
            f"{GAME}/score_against_random": 2.5 / 3,
        }
    )
