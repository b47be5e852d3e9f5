"""docs/extend/extending.md's monitor, figure, alarm and logger: written, trained with, and seen where the page says."""

import json
import os
import subprocess
import sys

import pytest
from support.pages import EXTENDING, blocks, commands
from support.source import ROOT
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import league as package
from games.common import plugins
from games.common.errors import UsageError
from league.config.load import load
from league.training.board.metrics_log import read_metrics
from league.training.board.observer import Observer
from league.training.loop.session import train

FILES = {
    file: text
    for file, language, text in blocks(EXTENDING)
    if language in ("python", "toml") and file.startswith("watch")
}
SMALL = [f"{key}={value}" for key, value in {
    "threads": 1, "model.hidden_size": 16, "model.layers": 1, "model.intermediate_size": 16, "cold_start.steps": 2,
    "cold_start.matches": 4, "evaluation.matches": 4,
}.items()]  # fmt: skip
FIGURE = "2_what_does_it_do/lengths/kuhn_poker"


def league(folder, words, status=0):
    """Give a command in a folder, in its own process, where it must end with a status."""
    done = subprocess.run(
        [sys.executable, "-m", "league", *words],
        cwd=folder, capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == status, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with the page's files, and the run that its command trains there."""
    made = tmp_path_factory.mktemp("watched")
    for file, text in FILES.items():
        (made / file).write_text(text, encoding="utf-8")
    [words] = [words for words in commands(EXTENDING, "league") if words[:2] == ["train", "watch.toml"]]
    done = league(made, [*words, *(part for setting in SMALL for part in ("--set", setting))])
    assert "Alarm since iteration 3, brief of kuhn_poker: its matches have" in done.stderr
    return made


@pytest.fixture
def clean(monkeypatch):
    """Leave nothing registered behind."""
    monkeypatch.setattr(plugins, "_registered", dict(plugins._registered))


def test_its_metric_is_logged_and_its_alarm_rings_once_there_is_enough(folder):
    lines = list(read_metrics(folder / "runs/watched"))
    turns = [line["kuhn_poker/turns"] for line in lines[1:]]
    assert len(turns) == 6
    assert all(2 <= number <= 3 for number in turns), "Kuhn poker has two or three turns"
    assert [line.get("alarms/brief") for line in lines] == [None, None, None, 1.0, 1.0, 1.0, 1.0]
    state = json.loads(max((folder / "runs/watched/state").glob("iteration-*/state.json")).read_text())
    assert state["alarms"]["lengths"] == {"kuhn_poker": turns[-3:]}


def test_its_logger_gets_what_the_run_logs(folder):
    run = folder / "runs/watched"
    assert (run / "sent.jsonl").read_text() == (run / "metrics.jsonl").read_text()
    assert json.loads((run / "loggers.json").read_text()) == {"lines": "sent.jsonl"}


def test_its_figure_is_drawn_after_each_snapshot(folder):
    events = EventAccumulator(str(folder / "runs/watched/tb"))
    events.Reload()
    assert [event.step for event in events.Images(FIGURE)] == [3, 6]


def test_its_figure_is_on_the_opening_page_where_the_plugin_is(folder, clean, monkeypatch):
    from league.training.board.observers import pinned_figures

    names = ["4_is_it_breaking/alarms", FIGURE, "5_what_to_change/time"]
    assert pinned_figures(names) == [names[0], names[2]]
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "watchers", raising=False)
    import watchers  # noqa: F401

    assert pinned_figures(names) == [names[0], names[2], FIGURE]


def test_the_run_keeps_the_plugin_and_the_alarms_setting_is_checked(folder):
    text = (folder / "runs/watched/config.toml").read_text()
    assert '"watchers",' in text
    assert "fewest_turns = 4.0" in text
    words = ["train", "watch.toml", "--run-dir", "runs/never", "--plugin", "watchers", "--set"]
    assert "alarms.fewest_turns" in league(folder, [*words, "alarms.fewest_turns=-1"], status=2).stderr
    done = league(folder, [*words, 'alarms.stop=["brie"]'], status=2)
    assert "There is no alarm named 'brie'. Did you mean brief" in done.stderr


def test_a_name_that_is_taken_or_a_thing_of_another_kind_is_refused(clean):
    with pytest.raises(UsageError, match="adds the monitor 'credit', but the league itself has one"):
        package.register_monitor("credit", Observer(lambda record: {}))
    with pytest.raises(UsageError, match="which is a function, not a figure"):
        package.register_figure("mine", lambda data, game: None)
    with pytest.raises(UsageError, match="adds the alarm 'stop', but the league itself has one"):
        package.register_alarm("stop", None)
    with pytest.raises(UsageError, match="which is a str, not a logger"):
        package.register_logger("mine", "wandb")


def test_a_programs_own_monitor_sees_the_episodes_and_changes_nothing(tmp_path, clean):
    (tmp_path / "config.toml").write_text("iterations = 2\ngames.kuhn_poker.matches = 16\nboard.time = 0\n")
    config, seen = load(str(tmp_path / "config.toml"), SMALL), []
    train(config, tmp_path / "without")
    package.register_monitor("mine", Observer(lambda record: seen.append(record.episodes) or {"mine/matches": 16.0}))
    train(config, tmp_path / "with")
    assert [len(episodes) for episodes in seen] == [16, 16]
    assert all(episode.turns for episodes in seen for episode in episodes)
    assert [line.get("mine/matches") for line in read_metrics(tmp_path / "with")] == [None, 16.0, 16.0]
    weights = [sorted((tmp_path / name / "population").glob("*/model.safetensors")) for name in ("with", "without")]
    assert [file.read_bytes() for file in weights[0]] == [file.read_bytes() for file in weights[1]]
    assert weights[0]
