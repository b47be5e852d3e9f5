"""Every snapshot says which weights its training began from, and how it came to be from them."""

import pytest
from safetensors.torch import load_file
from support.processes.runs import TINY

from league.config.load import load
from league.population.storage.population import Population
from league.training.loop.evolve import evolve
from league.training.loop.session import resume, train

pytestmark = pytest.mark.thorough

LEAGUE = """
policies = { probe = { league_role = "main_exploiter" }, rover = { league_role = "league_exploiter" } }
exploiters = { freeze_from = 1, freeze_after = 2, league_reset = 0.0 }
matchmaking = { self_play = 0.35, fictitious = 0, pfsp = 0.5, verification = 0.15 }
"""
RESPONSE = """
matchmaking = { self_play = 0, fictitious = 0, psro = 1, response_from = "first" }
evaluation.mixture = "nash"
"""


def trained(tmp_path, settings):
    config = tmp_path / "config.toml"
    config.write_text(TINY + settings)
    return train(load(str(config)), tmp_path / "run").run_dir


def lineage(run):
    return {s.id: (s.parent, str(s.origin)) for s in Population(run / "population").all()}


@pytest.fixture(scope="module")
def league_run(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("league"), LEAGUE)


def test_a_main_exploiter_that_is_reset_descends_from_the_initial_weights(league_run):
    """A league exploiter that is never reset trains on, after its first snapshot, as main does."""
    found = lineage(league_run)
    assert found["main-000000"] == (None, "start")
    assert found["main-000004"] == ("main-000002", "trained")
    assert found["probe-000002"] == ("main-000000", "exploiter")
    assert found["probe-000004"] == found["probe-000006"] == ("main-000000", "reset")
    assert found["rover-000002"] == ("main-000000", "exploiter")
    assert found["rover-000004"] == ("rover-000002", "trained")


def test_the_parent_of_a_reset_has_the_weights_that_it_was_reset_to(league_run):
    initial = load_file(league_run / "initial_weights" / "probe.safetensors")
    parent = load_file(league_run / "population" / "main-000000" / "model.safetensors")
    same = [name for name in parent if name in initial]
    assert len(same) == len(initial) - ("lm_head.weight" in initial and "lm_head.weight" not in parent)
    assert all((initial[name] == parent[name]).all() for name in same)


def test_a_best_response_descends_from_the_snapshot_that_it_begins_from(tmp_path):
    found = lineage(trained(tmp_path, RESPONSE))
    assert found["main-000002"] == ("main-000000", "trained")  # the first is the newest: nothing is replaced
    assert found["main-000004"] == found["main-000006"] == ("main-000000", "response")


def test_a_policy_that_an_evolved_run_adds_descends_from_the_newest_snapshot(tmp_path):
    run = trained(tmp_path, "")
    evolve(run, tmp_path / "evolved", 2, ['roles.policy."kuhn_poker/second"=rival'])
    found = lineage(resume(tmp_path / "evolved").run_dir)
    assert found["rival-000008"] == ("main-000006", "trained")


def test_how_a_reset_policy_began_survives_a_resume(tmp_path):
    """Iterations 1 to 3, then the rest: the reset of iteration 2 lies before the interruption."""
    config = tmp_path / "config.toml"
    config.write_text((TINY + LEAGUE).replace("iterations = 6", "iterations = 3"))
    train(load(str(config)), tmp_path / "short")
    evolve(tmp_path / "short", tmp_path / "run", 3, [])
    found = lineage(resume(tmp_path / "run").run_dir)
    assert found["probe-000004"] == ("main-000000", "reset")
