"""docs/extend/extending.md makes a package outside the project; here it is written, used, installed, and taken away."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from support.pages import EXTENDING, blocks, commands
from support.source import ROOT

from arena.replays import load_episodes
from games.common import plugins
from games.spec import Game
from league.cli import main
from learners.trajectories import Evidence

FILES = {
    file: text
    for file, language, text in blocks(EXTENDING)
    if language in ("python", "toml") and file.startswith(("race", "pyproject"))
}
SMALL = {"iterations": 2, "snapshot_every": 1, "threads": 1, "games.race_to_ten.matches": 16, "episodes_kept": 64}
SMALL |= {"model.hidden_size": 16, "model.layers": 1, "model.intermediate_size": 16, "cold_start.steps": 2}
SMALL |= {"cold_start.matches": 4, "evaluation.matches": 4}
OVERRIDES = [word for key, value in SMALL.items() for word in ("--set", f"{key}={value}")]


def write_package(folder):
    """Write all files of the page."""
    for file, text in FILES.items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def league(folder, *commands, python=sys.executable, status=0, **settings):
    """Give commands in one process in a folder, where they must end with a status; return what they printed."""
    code = f"import sys; from league.cli import main; sys.exit(max(map(main, {[list(words) for words in commands]})))"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [python, "-c", code], cwd=folder, capture_output=True, text=True, check=False, env=environment, **settings
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """Return a folder with the page's files, from which its modules can be imported; other tests do not know them."""
    folder = write_package(tmp_path_factory.mktemp("extended"))
    sys.path.append(str(folder))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(plugins, "_registered", dict(plugins._registered))
        yield folder
    sys.path.remove(str(folder))
    for module in [name for name in sys.modules if name.partition(".")[0] == "race_games"]:
        del sys.modules[module]


@pytest.fixture(scope="module")
def trained(package):
    """Return the folder after the page's commands, and what they printed."""
    others = ("plea", "watch")  # packages of the page that have tests of their own
    given = [words for words in commands(EXTENDING, "league") if not any(name in " ".join(words) for name in others)]
    asked = [[*words, *OVERRIDES] if words[0] == "train" else words for words in given]
    assert [words[0] for words in asked] == [
        "check",
        "match",
        "train",
        "standings",
        "match",
        "play",
        "match",
        "credit",
        "show",
    ]
    return package, league(package, *asked, input="1\n" * 10)


def test_a_package_outside_the_project_is_short():
    assert len(FILES) == 9
    assert sum(text.count("\n") for file, text in FILES.items() if file != "race.toml") < 220


@pytest.mark.thorough
def test_its_game_trains_is_rated_and_is_there_to_look_at(trained):
    folder, done = trained
    assert "race_to_ten passes 14 checks, over 200 random matches" in done.stdout
    assert "runs/race against prefers:1" in done.stdout
    assert "random against prefers:1" in done.stdout
    assert "league exploitability" not in done.stdout  # which could not be computed
    assert re.search(r"race_games +matchmaking rule +recent", done.stdout)
    metrics = json.loads((folder / "runs/race/metrics.jsonl").read_text().splitlines()[-1])
    assert {"race_to_ten/score/opener", "race_to_ten/score_against_prefers:1", "opener/loss", "closer/loss"} <= set(
        metrics
    )
    assert metrics["opener/winners/loss"] > 0.0
    episodes = load_episodes(folder / "runs/race/episodes/iteration-000002.jsonl")
    assert {episode.request.rule for episode in episodes} == {"self_play", "recent"}


def test_the_run_keeps_what_it_needs_and_is_refused_by_name_where_that_is_missing(trained, tmp_path, capsys):
    run = shutil.copytree(trained[0] / "runs/race", tmp_path / "race")
    text = (run / "config.toml").read_text()
    assert 'plugins = [\n    "race_games",\n]' in text
    assert "[credit.batch_mean]\nprior = 4.0\nclip = 2.0" in text
    assert re.search(r"\[objective.winners\]\nclip_low = 0.2\n(.*\n)*share = 0.25", text)
    (run / "config.toml").write_text(text.replace("race_games", "gone_games"))
    match = ["match", str(run), "random", "--game", "race_to_ten"]
    for words in (["train", "--resume", "--run-dir", str(run)], ["standings", str(run)], match):
        assert main(words) == 2
        assert capsys.readouterr().err.startswith(
            "league: The plugin 'gone_games' is named by the file you are reading, not by"
        )
        assert main([*words, "--plugin", "gone_games"]) == 2
        assert capsys.readouterr().err.startswith("league: The plugin 'gone_games' is missing: Python finds no module")


def test_the_games_first_seat_wins_by_two_and_only_by_two(package):
    from race_games.game import RaceToTen

    game = RaceToTen()
    assert isinstance(game, Game)

    def value(match):  # to the seat that is to act
        return max(-outcome(match, step) for step in match.legal_actions())

    def outcome(match, step):
        after = match.copy()
        after.apply(step)
        return -after.returns()[match.to_act()] if after.to_act() is None else value(after)

    assert [step for step in game.legal_actions() if outcome(game, step) < 0] == ["2"]
    assert game.observe(0) == "Total: 0"
    with pytest.raises(ValueError, match="'4' is not legal"):
        game.apply("4")


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [[2 / 3] * 2, [0.0], [-4 / 3], [2 / 3]]),  # the first role's mean is 1/3
        ({"prior": 1.0}, [[3 / 4] * 2, [-1 / 2], [-5 / 4], [3 / 4]]),  # now 1/4, and the second's -1/2
        ({"clip": 0.5}, [[0.5] * 2, [0.0], [-0.5], [0.5]]),
    ],
)
def test_the_credit_rules_numbers_are_those_worked_by_hand(package, settings, expected):
    from race_games.batch_mean import RULE

    part = [("first", (0.0, 1.0)), ("second", (-1.0,)), ("first", (-1.0,)), ("first", (1.0,))]
    trajectories = [
        SimpleNamespace(game="g", role=role, policy="main", match_return=sum(rewards), turns=rewards)
        for role, rewards in part
    ]
    advantages, weights, state = RULE.make(trajectories, [Evidence()] * 4, {}, RULE.settings(**settings))
    assert (weights, state) == ([1.0] * 4, {})
    assert advantages == [pytest.approx(own) for own in expected]


def test_the_loss_gives_the_choices_of_won_matches_and_all_of_them_weigh_its_share(package):
    """Two choices of the match that was won, one of them twice; a lost one's and a forced reply are not there."""
    from race_games.winners import LOSS

    def turn(reply, prompt, mask=("1", "2")):
        return SimpleNamespace(reply=reply, trace=SimpleNamespace(prompt_ids=prompt, mask=mask, temperature=1.0))

    won = [turn("2", (1,)), turn("2", (1,)), turn("1", (2,)), turn("1", (3,), ("1",))]
    trajectories = [
        SimpleNamespace(game="g", match_return=worth, turns=turns) for worth, turns in ((1.0, won), (-1.0, won[:1]))
    ]
    facts = SimpleNamespace(trajectories=trajectories, mid_returns={"g": 0.0})
    first, second = LOSS.rows(facts, LOSS.settings(share=0.6)).choice
    assert (first.prompt, first.counts, first.weights) == ((1,), [0.0, 2.0], [0.0, pytest.approx(0.4)])
    assert (second.prompt, second.counts, second.weights) == ((2,), [1.0, 0.0], [pytest.approx(0.2), 0.0])


def test_the_matchmaker_doubles_with_youth(package):
    from race_games.players import recent

    assert recent(SimpleNamespace(players=["a", "b", "c"])) == pytest.approx(np.array([1, 2, 4]) / 7)


@pytest.mark.slow
def test_the_package_installed_in_a_new_environment_needs_no_plugins_line(tmp_path):
    """Trains by entry points, stops, resumes, and is refused once the package is gone."""
    source = write_package(tmp_path / "source")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    python = tmp_path / "env" / "bin" / "python"
    site = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], capture_output=True, check=True
    )
    (Path(site.stdout.decode().strip()) / "project.pth").write_text(  # what the league needs, from this environment
        f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})", encoding="utf-8"
    )
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, "install", "--no-deps", "--no-build-isolation", "--no-index", source], check=True)
    place = tmp_path / "place"
    place.mkdir()
    (place / "race.toml").write_text(FILES["race.toml"].replace('plugins = ["race_games"]\n', ""), encoding="utf-8")
    train = ["train", "race.toml", "--run-dir", "runs/race", *OVERRIDES]
    league(place, train, ["standings", "runs/race"], python=python)
    saved = ["match", "random", "random", "--game", "race_to_ten", "--matches", "4", "--save", "matches.jsonl"]
    told = league(place, saved, ["lengths", "matches.jsonl"], python=python).stdout
    assert re.search(r"^4 matches of \d\.\d turns, the longest of \d+$", told, flags=re.MULTILINE)
    config = place / "runs/race/config.toml"
    assert 'plugins = [\n    "race-games",\n]' in config.read_text()
    config.write_text(config.read_text().replace("iterations = 2\n", "iterations = 3\n"), encoding="utf-8")
    resume = ["train", "--resume", "--run-dir", "runs/race"]
    league(place, resume, python=python)
    lines = (place / "runs/race/metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["iteration"] for line in lines] == [0, 1, 2, 3]
    subprocess.run([*pip, "uninstall", "-y", "race-games"], check=True)
    refused = league(place, resume, python=python, status=2)
    assert "no plugin named 'race-games'" in refused.stderr


@pytest.mark.slow
@pytest.mark.parametrize("learners", ["none", "each"])
def test_workers_on_ray_play_and_learn_a_plugins_game(package, tmp_path, learners):
    """The run of a real cluster equals that of one machine: its processes load the plugin that the run names."""
    pytest.importorskip("ray", reason="Ray is not installed here: pip install 'llm-league[ray]'")
    place = write_package(tmp_path)
    shares = "cluster={matches=8, engine_cpus=0.5, worker_cpus=0.5, learner_cpus=0.5}"
    settings = [*OVERRIDES, "--set", shares, "--set", f'async_learners.processes="{learners}"']
    train = ["train", "race.toml", *settings, "--plugin", "race_games", "--run-dir"]
    league(place, [*train, "runs/here"])
    league(place, [*train, "runs/ray", "--cluster", "local"])
    weights = [
        {path.parent.name: path.read_bytes() for path in (place / run).glob("population/*/model.safetensors")}
        for run in ("runs/here", "runs/ray")
    ]
    assert weights[0] == weights[1]
    assert {name.partition("-")[0] for name in weights[1]} == {"opener", "closer"}
    lines = (place / "runs/ray/metrics.jsonl").read_text().splitlines()
    assert any(name.startswith("cluster/share/") for name in json.loads(lines[-1]))
    (place / "race_games").rename(place / "elsewhere")
    resume = ["train", "--resume", "--run-dir", "runs/ray", "--cluster", "local", "--plugin", "race_games"]
    refused = league(place, resume, status=2)
    assert "The plugin 'race_games' is missing" in refused.stderr
