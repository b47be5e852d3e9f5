"""Whom a cold start imitates."""

import pytest

from arena.records import MatchRequest
from arena.samplers.torch_lm import TorchLM
from arena.scheduler import play
from games.errors import UsageError
from games.registry import make_game
from league.config import RunConfig
from league.settings import run_roles
from league.start import start_policies

GAME = "judged_arithmetic(score=0)"


def taught(players):
    data = {
        "games": {GAME: {}},
        "model": {"hidden_size": 32, "intermediate_size": 64, "vocabulary": 300},
        "cold_start": {"players": players, "steps": 150, "matches": 300},
    }
    config = RunConfig.model_validate(data)
    roles = run_roles(config)
    policies = start_policies(config, roles)
    engine = TorchLM()
    for policy in policies.values():
        engine.add(policy.live_id, policy.lm)
    seated = tuple(role.policy for role in roles[GAME])
    requests = [MatchRequest(i, GAME, i, i, seated, (False,) * 2) for i in range(400)]
    episodes = play(
        requests, roles_of=roles.__getitem__, engine_of=lambda _: engine, make_game=make_game, in_flight=400
    )
    return sum(episode.returns[0] for episode in episodes) / len(episodes)


def test_a_team_that_imitates_the_optimal_script_is_right():
    # the optimal team is always right; who answers at random is right once in five
    assert taught(("scripted:optimal",)) > 0.9


def test_seats_draw_their_demonstrators_apart():
    # between random play, right once in five, and who imitates a half optimal team well: 1/2 + 1/2 * 1/5
    assert 0.3 < taught(("random", "scripted:optimal")) < 0.7


def test_a_demonstrator_that_nobody_knows_is_refused():
    with pytest.raises(UsageError, match=r"cold_start\.players: 'optimal' is not a player that is a rule"):
        taught(("optimal",))


def test_a_demonstrator_that_cannot_play_the_game_is_refused():
    with pytest.raises(UsageError, match="scripted:best cannot play judged_arithmetic"):
        taught(("scripted:best",))
