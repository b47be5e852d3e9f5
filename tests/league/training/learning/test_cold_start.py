"""The scripted players that a cold start imitates."""

import re
from pathlib import Path

import pytest

from arena.records import MatchRequest
from arena.samplers.torch_lm import TorchLM
from arena.scheduler import play
from games.common.errors import UsageError
from games.registry import make_game
from league.config import RunConfig
from league.config.context import run_context
from league.config.load import load, run_roles
from league.population.players.demonstrations import demonstrations
from league.training.learning.policies import start_policies

GAME = "judged_arithmetic(score=0)"


def score_after(players):
    data = {
        "games": {GAME: {}},
        "model": {"hidden_size": 32, "intermediate_size": 64, "vocabulary": 300},
        "cold_start": {"players": players, "steps": 150, "matches": 300},
    }
    config = RunConfig.model_validate(data)
    context = run_context(config, Path())
    policies, roles = start_policies(context), context.roles
    engine = TorchLM()
    for policy in policies.values():
        engine.add(policy.live_id, policy.lm)
    players = tuple(role.policy for role in roles[GAME])
    requests = [MatchRequest(i, GAME, i, i, players, (False,) * 2) for i in range(400)]
    episodes = play(
        requests, roles_of=roles.__getitem__, engine_of=lambda _: engine, make_game=make_game, in_flight=400
    )
    return sum(episode.returns[0] for episode in episodes) / len(episodes)


def test_a_team_that_imitates_the_optimal_script_is_right():
    # the optimal team is always right, and random replies are right once in five
    assert score_after(("scripted:optimal",)) > 0.9


@pytest.mark.thorough
def test_each_seat_draws_its_own_demonstrator():
    # between random play, 1/5, and good imitation of a half optimal team, 1/2 + 1/2 * 1/5
    assert 0.3 < score_after(("random", "scripted:optimal")) < 0.7


def test_an_unknown_demonstrator_is_refused():
    with pytest.raises(UsageError, match=r"cold_start\.players: 'optimal' is not a scripted player"):
        score_after(("optimal",))


def test_a_demonstrator_that_cannot_play_the_game_is_refused():
    with pytest.raises(UsageError, match="scripted:best cannot play judged_arithmetic"):
        score_after(("scripted:best",))


def test_matches_to_imitate_may_begin_with_random_moves_that_are_not_imitated():
    """Minimax draws against itself, so without random moves nobody ever wins or loses; every reply stays a best one."""

    def said(moves):
        config = load("pocket-reasons", ["cold_start.matches=60", f"cold_start.random_moves={moves}"])
        return [d.reply for d in demonstrations(config, run_roles(config))], len(config.games)

    plain, _ = said(0)
    assert not any("wins" in reply for reply in plain)
    assert len(plain) == 60 * 9
    begun, _ = said(7)
    assert sum("wins" in reply for reply in begun) > 20
    assert 60 < len(begun) < 60 * 7  # all cells but five and a half on average, less what was won
    for reply in begun:
        worth = dict(part.split() for part in reply.split(", so ")[0].split(", "))
        act = reply.split("[")[1].rstrip("]")
        assert worth[act] == next(outcome for outcome in ("wins", "draws", "loses") if outcome in worth.values())


def test_random_moves_are_refused_where_nothing_random_plays():
    config = load("pocket-reasons", ["games={debate={matches=4}}", "cold_start.random_moves=2"])
    with pytest.raises(UsageError, match=r"cold_start\.random_moves = 2 .* asks for words"):
        demonstrations(config, run_roles(config))


def test_a_reply_too_long_to_be_finished_is_named_before_any_step(capsys):
    """Minimax's reply to the empty board is its longest: nine cells, each a label and an outcome, and the act."""
    shape = ["model.hidden_size=16", "model.intermediate_size=16", "model.vocabulary=300"]
    few = ["cold_start.matches=20", "cold_start.steps=1", *shape]

    def said(tokens):
        start_policies(run_context(load("pocket-reasons", [f"roles.max_reply_tokens={tokens}", *few]), Path()))
        return capsys.readouterr().err

    needed = int(re.search(r"Set roles\.max_reply_tokens to (\d+) or more", said(8))[1])
    assert f"may write {needed - 1}, " in said(needed - 1)
    assert "may write" not in said(needed)
