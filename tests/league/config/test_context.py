"""What the parts of a run share is worked out from its settings, and once in a whole session."""

import pickle
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import pytest
from support.processes.runs import TINY

from games.registry import make_game
from league.config import RunConfig
from league.config import load as loading
from league.config.context import run_context
from league.training.loop.session import train

KUHN, CHAIN = "kuhn_poker", "lookup_chain"


def context_of(**tables):
    return run_context(RunConfig(games={KUHN: {}, CHAIN: {}}, **tables), Path("run"))


def test_it_knows_the_games_of_the_run_and_those_that_their_matches_open():
    context, opened = context_of(), make_game(CHAIN).spec.submatch_games
    assert opened
    assert list(context.specs) == [KUHN, CHAIN]
    assert list(context.all_specs) == list(context.roles) == [KUHN, CHAIN, *opened]
    assert all(context.all_specs[game] == make_game(game).spec for game in opened)
    assert context.live[KUHN] == ("main", "main")
    assert {game: len(seats) for game, seats in context.live.items()} == {
        game: spec.seats for game, spec in context.all_specs.items()
    }


def test_policies_are_those_of_roles_and_then_the_exploiters():
    bound = {"policy": {f"{KUHN}/second": "rival"}}
    context = context_of(roles=bound, policies={"probe": {"league_role": "main_exploiter"}})
    assert context.policies == ("main", "rival", "probe")
    assert context.live[KUHN] == ("main", "rival")


def test_returns_are_divided_by_half_the_range_unless_they_stay_as_they_are():
    spec, context = make_game(KUHN).spec, context_of()
    assert context.scales[KUHN] == (spec.max_return - spec.min_return) / 2 != 1.0
    assert context.scales.keys() == context.all_specs.keys()
    assert set(context_of(credit={"scale_returns": False}).scales.values()) == {1.0}


def test_it_is_frozen_and_travels_to_other_processes_and_devices():
    context = context_of()
    with pytest.raises(FrozenInstanceError):
        context.run_dir = Path("other")
    assert pickle.loads(pickle.dumps(context)) == context  # noqa: S301
    driver = replace(context, config=context.config.on_devices(lambda _: "cuda:1"))
    assert driver.config.model.device == "cuda:1"
    assert driver.roles is context.roles


def test_a_session_works_out_the_roles_of_a_game_once(tmp_path, monkeypatch):
    (tmp_path / "tiny.toml").write_text(TINY)
    config = loading.load(str(tmp_path / "tiny.toml"), ["iterations=1", "board.time=0"])
    asked, real = [], loading.seat_roles

    def counted(settings, spec, **kind):
        asked.append(spec.name)
        return real(settings, spec, **kind)

    monkeypatch.setattr(loading, "seat_roles", counted)
    train(config, tmp_path / "run")
    assert asked == [*config.games]
