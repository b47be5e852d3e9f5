"""Roles that are given to players: named for as long as the run lasts, or refused in a sentence before it begins."""

import json
from pathlib import Path

import pytest

from arena.replays import load_episodes
from games.common.errors import UsageError
from league.cli.dispatch import main
from league.config.load import load, load_run_config, policy_names, run_roles
from league.population.players.demonstrations import demonstrations
from league.population.players.fixed import with_lasting_names

SMALL = """
iterations = 2
snapshot_every = 1
threads = 1
games.kuhn_poker.matches = 16
model = {hidden_size = 16, layers = 1, heads = 2, kv_heads = 1, intermediate_size = 16}
cold_start = {steps = 1, matches = 4}
evaluation = {matches = 4}
"""
JUDGED = 'games."judged_arithmetic(judge=1)".matches = 8\n'
SECOND, JUDGE = "kuhn_poker/second", "judged_arithmetic(judge=1)/judge"


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(players, more=""):
    table = "".join(f'"{role}" = "{player}"\n' for role, player in players.items())
    Path("given.toml").write_text(f"{SMALL}{more}[roles.player]\n{table}")


def configured(players, more=""):
    write(players, more)
    return load("given.toml")


def trained(players, more="", run="run"):
    write(players, more)
    assert main(["train", "given.toml", "--run-dir", run]) == 0
    return [json.loads(line) for line in Path(run, "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(
    ("players", "more", "part"),
    [
        ({SECOND: "equilibirum"}, "", "roles.player of kuhn_poker/second: There is no player named 'equilibirum'"),
        ({SECOND: "scripted:good"}, "", "of kuhn_poker/second: scripted:good cannot play kuhn_poker"),
        ({SECOND: "nobody@main-000001"}, "", "of kuhn_poker/second: There is no player named 'nobody'"),
        ({SECOND: "hf:./nothing"}, "", "there is no folder nothing"),
        ({SECOND: "openai:none.toml"}, "", "none.toml cannot be read"),
        ({SECOND: "best_response:nothing"}, "", "nothing"),
        ({"kuhn_poker/third": "random"}, "", "There is no role named 'kuhn_poker/third'"),
        ({SECOND: ""}, "", "roles.player"),
        ({SECOND: "random"}, f'roles.policy = {{"{SECOND}" = "b"}}\n', "has a policy, 'b', in roles.policy and a pl"),
        ({SECOND: "main"}, "", "'main', which is also the name of a policy of this run"),
        ({SECOND: "random", "kuhn_poker/first": "random"}, "", "gives away every role of kuhn_poker"),
        ({SECOND: "random"}, "matchmaking={self_play=1,fictitious=0,swap_every=2}\n", "swap_every = 2 moves policies"),
        ({SECOND: "random"}, 'policies.probe.league_role = "main_exploiter"\n', "have nobody to exploit"),
    ],
)
def test_what_cannot_be_given_a_role_is_refused_before_anything_is_made(players, more, part, capsys):
    write(players, more)
    assert main(["train", "given.toml", "--run-dir", "run"]) == 2
    error = capsys.readouterr().err
    assert part in error.replace("\n", " ")
    assert "Traceback" not in error


def test_a_given_player_is_no_policy_and_shows_nobody_how_to_play():
    config = configured({JUDGE: "scripted:optimal"}, JUDGED)
    roles = run_roles(config)
    assert policy_names(config, roles) == ["main"]
    shown = {example.role.name for example in demonstrations(config, roles)}
    assert shown == {"first", "second", "solver", "evaluator"}


def test_paths_are_kept_whole_and_a_run_as_its_newest_snapshot(tmp_path):
    trained({SECOND: "random"}, run="runs/old")
    newest = f"{tmp_path}/runs/old@main-000002"
    assert with_lasting_names(configured({SECOND: "random", JUDGE: "old"}, JUDGED)).roles.player[JUDGE] == newest
    same = with_lasting_names(configured({JUDGE: "runs/old@main-000001"}, JUDGED)).roles.player
    assert same == {JUDGE: f"{tmp_path}/runs/old@main-000001"}
    with pytest.raises(UsageError, match=r"a mixture is drawn again for each match. Name one snapshot"):
        with_lasting_names(configured({JUDGE: "old@mixture"}, JUDGED))
    with pytest.raises(UsageError, match=r"kuhn_poker/second was played by random. Name that player itself"):
        with_lasting_names(configured({SECOND: "old"}))
    (tmp_path / "server.toml").write_text('model = "m"\nurl = "http://localhost:1/v1"\n')
    server = with_lasting_names(configured({JUDGE: "openai:server.toml"}, JUDGED)).roles.player
    assert server == {JUDGE: f"openai:{tmp_path}/server.toml"}


def test_beside_an_equilibrium_what_is_left_to_learn_is_the_distance_to_the_game_s_value():
    """A best response to an equilibrium of Kuhn poker earns the game's value, −1/18, in the first seat (Kuhn 1950)."""
    for line in trained({SECOND: "equilibrium"}):
        if "kuhn_poker/exploitability" in line:
            best = line["kuhn_poker/exploitability"] + line["kuhn_poker/first_seat_value"]
            assert best == pytest.approx(-1 / 18, abs=1e-3)
            assert 0.0 <= line["kuhn_poker/score_against_given"] <= 1.0
        assert "kuhn_poker/score/second" not in line
        assert not any(name.startswith("kuhn_poker/advantage/second") for name in line)


@pytest.mark.thorough
def test_a_snapshot_of_another_run_judges_is_not_trained_and_is_missed_when_it_is_gone(tmp_path, capsys):
    trained({}, JUDGED, run="old")
    before = (tmp_path / "old/population/main-000002/model.safetensors").read_bytes()
    lines = trained({JUDGE: "old@main-000002"}, JUDGED)
    judge = f"{tmp_path}/old@main-000002"
    assert load_run_config(tmp_path / "run").roles.player == {JUDGE: judge}
    turns = [
        turn
        for path in (tmp_path / "run/episodes").glob("*.jsonl")
        for episode in load_episodes(path)
        for turn in episode.turns
        if turn.role == "judge"
    ]
    assert turns
    assert {turn.player for turn in turns} == {judge}
    assert {turn.trace.snapshot for turn in turns} == {judge}
    assert not any("/advantage/judge" in name for line in lines for name in line)
    assert any("judged_arithmetic(judge=1)/advantage/solver/mean" in line for line in lines)
    assert (tmp_path / "old/population/main-000002/model.safetensors").read_bytes() == before
    assert judge not in (tmp_path / "run/ratings.json").read_text()
    (tmp_path / "old").rename(tmp_path / "gone")
    settings = tmp_path / "run/config.toml"
    settings.write_text(settings.read_text().replace("iterations = 2", "iterations = 3"))
    assert main(["train", "--resume", "--run-dir", "run"]) == 2
    assert f"There is no player named '{tmp_path}/old'" in capsys.readouterr().err.replace("\n", " ")


def test_a_run_plays_in_other_commands_with_whom_it_gave_its_roles_to(tmp_path, capsys):
    lines = trained({JUDGE: "scripted:optimal"}, JUDGED)
    assert {line[f"{JUDGE}/agreement"] for line in lines[1:]} == {1.0}
    assert "share of verdicts that agree with the truth 1.000 → 1.000" in capsys.readouterr().out
    capsys.readouterr()
    game = "judged_arithmetic(judge=1)"
    assert main(["match", "run", "run@main-000000", "--game", game, "--matches", "6", "--save", "m.jsonl"]) == 0
    judges = {e.request.players[2] for e in load_episodes(tmp_path / "m.jsonl")}
    assert judges == {"scripted:optimal"}
    capsys.readouterr()
    assert main(["standings", "run", "--json"]) == 0
    ranking = json.loads(capsys.readouterr().out)["games"][game]["ranking"]
    assert {row["player"] for row in ranking} == {"random", "main-000000", "main-000001", "main-000002"}
