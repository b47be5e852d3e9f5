"""Players of a run whose policies have base models of their own: each is asked by its own engine."""

import json

import pytest
from support.processes.runs import TINY, league_train

from games.registry import make_game
from league.cli.dispatch import main
from league.population.players.engines import Engines
from league.population.players.player import resolve
from league.population.players.settings import PlayerSettings

KUHN = make_game("kuhn_poker").spec
BOUND = 'roles.policy = { "kuhn_poker/first" = "a", "kuhn_poker/second" = "b" }\n'
OWN = 'policies.b.model = { hidden_size = 48, vocabulary = 300, dtype = "bfloat16" }\n'


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return a run whose two policies have weights of other types, so that two engines play it."""
    folder = tmp_path_factory.mktemp("two")
    (folder / "two.toml").write_text(TINY + BOUND + OWN)
    ended = league_train(folder / "two.toml", "--set", "iterations=2", run_dir=folder / "run")
    assert ended.status == 0, ended.output
    return folder / "run"


def dtypes(player):
    """Return the types of the weights that play each seat."""
    return [
        str(player.engine_of(identity).model_of(identity).model.dtype)
        for members in player.members
        for identity, _ in members[:1]
    ]


@pytest.mark.parametrize("which", ["", "@mixture"])
def test_each_seat_is_played_by_the_engine_of_its_policys_model(which, run):
    with Engines() as engines:
        player = resolve(f"{run}{which}", KUHN, engines)
        assert dtypes(player) == ["torch.float32", "torch.bfloat16"]
        rows = player.tabulate().table.probabilities
    assert len(rows) == 12  # Kuhn's information states
    assert all(sum(row) == pytest.approx(1.0, abs=1e-3) for row in rows.values())


def test_a_type_that_a_command_names_is_that_of_every_policy(run):
    with Engines(PlayerSettings(dtype="float32")) as engines:
        assert dtypes(resolve(str(run), KUHN, engines)) == ["torch.float32", "torch.float32"]


def test_it_plays_itself_and_its_mixture_is_distilled(run, tmp_path, capsys):
    words = ["match", str(run), f"{run}@mixture", "--game", "kuhn_poker", "--matches", "8", "--json"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["matches"] == 8
    folder = tmp_path / "one"
    assert main(["distil", f"{run}@mixture", "-o", str(folder), "--set", "distil.steps=2", "--json"]) == 0
