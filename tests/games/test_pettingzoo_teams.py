"""Team games as PettingZoo environments: their submatches are played by given players, or they are refused."""

import random
import warnings

import pytest
from pettingzoo.test import api_test, seed_test

import league
from games.common.errors import UsageError
from games.pettingzoo import env

TEAM = "lookup_chain(people=6,relations=2)"
WORKER = "lookup(people=6,relations=2)/worker"


def returns(worker, planner, matches=12):
    """Return what a scripted planner earns in the environment, by seed."""
    table, earned = league.pettingzoo_env(TEAM, players={WORKER: worker}), []
    for seed in range(matches):
        table.reset(seed=seed)
        total, game = 0.0, table.unwrapped.game
        for _ in table.agent_iter():
            _, reward, over, cut, _ = table.last()
            total += reward
            said = None if over or cut else game.scripts()[planner](random.Random(seed))
            table.step(None if said is None else game.legal_ids()[game.legal_actions().index(said)])
        earned.append(total)
    table.close()
    return earned


def test_without_players_a_team_game_is_refused_in_a_sentence():
    with pytest.raises(UsageError, match=r"opens matches of lookup\(people=6,relations=2\).*say who plays them"):
        env(TEAM)
    with pytest.raises(UsageError, match=r"nobody plays lookup\(people=6,relations=2\)/worker"):
        league.pettingzoo_env(TEAM, players={})
    with pytest.raises(UsageError, match="There is no role named 'lookup/worker'"):
        league.pettingzoo_env(TEAM, players={"lookup/worker": "random"})
    with pytest.raises(UsageError, match="There is no player named 'nobody'"):
        league.pettingzoo_env(TEAM, players={WORKER: "nobody"})


def test_a_planner_that_asks_well_earns_all_beside_workers_that_know_and_little_beside_others():
    """R_M = 0.1 format + 0.9 correct (arXiv 2511.13288)."""
    assert returns("scripted:optimal", "optimal") == pytest.approx([1.0] * 12)
    assert sum(returns("scripted:poor", "optimal")) < 12


def test_it_is_the_match_that_the_league_plays():
    from arena.records import Cast, MatchRequest
    from arena.samplers.scripted import Script
    from arena.scheduler import play
    from games.registry import make_game
    from league.config import RolesConfig
    from league.config.load import seat_roles

    worker = Cast(WORKER.rpartition("/")[0], ("worker",), (False,))
    engines = {"planner": Script("optimal"), "worker": Script("poor")}
    episodes = play(
        [MatchRequest(i, TEAM, i, i, ("planner",), (False,), cast=(worker,)) for i in range(12)],
        roles_of=lambda name: seat_roles(RolesConfig(), make_game(name).spec),
        engine_of=engines.__getitem__,
        make_game=make_game,
    )
    assert returns("scripted:poor", "optimal") == [episode.returns[0] for episode in episodes]


def test_pettingzoos_own_tests():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        api_test(league.pettingzoo_env(TEAM, players={WORKER: "random"}), num_cycles=20)
        seed_test(lambda: league.pettingzoo_env(TEAM, players={WORKER: "random"}), num_cycles=20)
