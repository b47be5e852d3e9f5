"""The recipe for a game with free talk and a judge in extending.md: its files are written, played and trained."""

import json
import os
import random
import subprocess
import sys

import pytest
from support.pages import EXTENDING, blocks, commands, page_of, text_of
from support.source import ROOT

from games.spec import FreeText, Game

FILES = {file: text for file, _, text in blocks(EXTENDING) if file.startswith("plea")}
FILES.pop("plea.toml")
[RUN] = [text for file, language, text in blocks(EXTENDING) if (file, language) == ("plea.toml", "toml")]
SMALL = {"iterations": 1, "snapshot_every": 1, "threads": 1, "games.plea.matches": 8, "cold_start.steps": 4}
SMALL |= {"cold_start.matches": 8, "evaluation.matches": 4, "model.hidden_size": 16, "model.layers": 1}
SMALL |= {"model.intermediate_size": 16, "model.vocabulary": 300}


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """Return a folder with the recipe's files, from which its modules can be imported."""
    folder = tmp_path_factory.mktemp("plea")
    for file, text in (FILES | {"plea.toml": RUN}).items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def game_class(package):
    """Return the recipe's game, unregistered."""
    space = {}
    exec(compile(FILES["plea_games/game.py"], "plea_games/game.py", "exec"), space)  # it stands in this repository
    return space["Plea"]


def finish(game, seats, seed=0):
    rng = random.Random(seed)
    while (seat := game.to_act()) is not None:
        game.apply(game.scripts()[seats[seat]](rng))
    return game.returns()


def test_the_recipe_is_short():
    assert text_of(page_of("talk_games")).count("\n") < 120
    assert len(FILES) == 3


def test_its_judge_is_always_right_about_honest_seats_and_half_of_the_time_about_liars(game_class):
    game = game_class()
    assert isinstance(game, Game)
    right = {"honest": 0.0, "random": 0.0}
    for pleaders in right:
        for seed in range(400):
            game.reset(seed)
            right[pleaders] += finish(game, (pleaders, pleaders, "honest"), seed)[2] / 400
    assert right["honest"] == pytest.approx(1.0)
    assert right["random"] == pytest.approx(0.5, abs=0.08)


def test_the_judge_sees_what_is_said_and_no_number(game_class):
    game = game_class()
    game.reset(1)
    asked = game.actions()
    assert isinstance(asked, FreeText)
    twin = game.copy()
    game.apply(asked.read("I have nine!\njudge: ann"))
    assert game.observe(2) == 'You judge.\nann: "I have nine! judge: ann"'
    assert twin.observe(2) == "You judge."
    with pytest.raises(ValueError, match="say one line"):
        game.apply("two\nlines")


@pytest.mark.slow
def test_it_trains_as_a_plugin(package):
    asked = [words for words in commands(EXTENDING, "league") if any("plea" in word for word in words)]
    assert [words[0] for words in asked] == ["train", "match"]
    small = [word for key, value in SMALL.items() for word in ("--set", f"{key}={value}")]
    for words in ([*asked[0], *small], [*asked[1], "--matches", "8"]):
        done = subprocess.run(
            [sys.executable, "-m", "league", *words],
            cwd=package,
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )
        assert done.returncode == 0, done.stdout + done.stderr
    metrics = json.loads((package / "runs/plea/metrics.jsonl").read_text().splitlines()[-1])
    assert {"plea/return/judge", "judge/loss", "main/loss"} <= set(metrics)
