"""Services get each iteration's metrics once, under one name before and after a resume; one that fails ends no run."""

import importlib
import json
import pickle
import sys
import threading
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from support.processes.runs import TINY
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from games.common.errors import UsageError
from league.cli import main
from league.config.load import load
from league.training.board.loggers import LOGGERS, LoggerKind, Loggers, check_loggers, open_loggers
from league.training.board.painting import Order, paint
from league.training.loop.session import train

SETTINGS = {"seed": 3, "credit.rule": "rae", "games.kuhn_poker(players=3).matches": 8}
METRICS = [{"kuhn_poker/score/first": 0.5, "kuhn_poker(players=3)/x": 1.0 / 3.0}, {"kuhn_poker/score/first": 0.75}]


PNG = paint(Order("f", 0, pickle.dumps(np.full((8, 12, 3), 200, np.uint8)))).png


def log(tmp_path, kinds, first, iterations):
    """Log iterations from the ``first`` one on, as a process of a run would, with a figure and a text of each."""
    loggers = open_loggers(kinds, tmp_path, SETTINGS, warn=pytest.fail)
    for iteration in range(first, iterations):
        loggers.write(iteration, METRICS[min(iteration, 1)])
        loggers.figure("3_who/payoffs/kuhn_poker(players=3)", PNG, max(iteration - 1, 0))
        loggers.text("transcripts/kuhn_poker/first", "# turn 1\n<b>bet</b>", iteration)
    loggers.close()


def test_without_loggers_nothing_is_written(tmp_path):
    open_loggers([], tmp_path, SETTINGS).write(0, METRICS[0])
    assert list(tmp_path.iterdir()) == []


def test_a_logger_that_is_unknown_or_not_installed_is_refused(monkeypatch, capsys):
    with pytest.raises(UsageError, match=r"no logger named 'wandbb'. Did you mean wandb\? Set board\.loggers"):
        check_loggers(["wandbb"])
    monkeypatch.setattr("league.training.board.loggers.find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"mlflow is not installed\. Install it: pip install 'llm-league\[mlflow\]'"):
        check_loggers(["mlflow"])
    assert main(["train", "pocket", "--set", 'board.loggers=["trackio"]', "--run-dir", "runs/never"]) == 2
    assert "trackio is not installed" in capsys.readouterr().err


class StandIn(ModuleType):
    """A module in wandb's place that keeps what it is told."""

    def __init__(self):
        super().__init__("wandb")
        self.begun, self.steps, self.others = [], {}, {}
        self.Settings = SimpleNamespace
        self.key = True

    def init(self, **given):
        self.begun.append(given)
        return SimpleNamespace(id=given["id"], step=len(self.steps), log=self.log, finish=lambda: None)

    def setup(self, settings):
        assert settings.silent

    def login(self, prompt):
        assert not prompt
        return self.key

    def log(self, metrics, step):
        numbers = {name: value for name, value in metrics.items() if isinstance(value, float)}
        if numbers:
            self.steps.setdefault(step, []).append(numbers)
        self.others.setdefault(step, {}).update({n: value for n, value in metrics.items() if n not in numbers})

    def Image(self, image, caption):  # noqa: N802
        return "image", image.size, caption

    def Table(self, columns, data):  # noqa: N802
        return "table", columns, data


def test_a_resumed_run_goes_on_under_its_name(tmp_path, monkeypatch):
    wandb = StandIn()
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    log(tmp_path, ["wandb"], 0, 3)
    log(tmp_path, ["wandb"], 2, 4)  # it was killed before iteration 2 was saved
    first, second = (given["id"] for given in wandb.begun)
    assert first == second
    assert json.loads((tmp_path / "loggers.json").read_text()) == {"wandb": first}
    assert wandb.begun[0]["config"] == SETTINGS
    assert {step: len(found) for step, found in wandb.steps.items()} == {0: 1, 1: 1, 2: 1, 3: 1}
    assert wandb.steps[0] == [METRICS[0]]


def test_figures_and_texts_go_to_wandb_too(tmp_path, monkeypatch):
    wandb = StandIn()
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    log(tmp_path, ["wandb"], 0, 2)
    assert wandb.others[0] == {
        "figures/3_who/payoffs/kuhn_poker(players=3)": ("image", (12, 8), "iteration 0"),
        "transcripts/kuhn_poker/first": ("table", ["iteration", "text"], [[0, "# turn 1\n<b>bet</b>"]]),
    }


def test_a_service_of_numbers_alone_gets_nothing_else():
    told, plain = [], Flaky(99)
    loggers = Loggers({"plain": plain}, told.append)
    loggers.figure("f", PNG, 0)
    loggers.text("t", "text", 0)
    loggers.write(0, {})
    assert (plain.sent, told) == ([0], [])


def test_a_logger_that_is_turned_on_later_gets_what_was_logged_before(tmp_path, monkeypatch):
    """Once: the next time it is known."""
    wandb = StandIn()
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    for resumed_at in (3, 4):
        before = [{"iteration": i, **METRICS[min(i, 1)]} for i in range(resumed_at)]
        loggers = open_loggers(["wandb"], tmp_path, SETTINGS, lambda before=before: before)
        loggers.write(resumed_at, METRICS[1])
        loggers.close()
    assert wandb.steps == {0: [METRICS[0]], 1: [METRICS[1]], 2: [METRICS[1]], 3: [METRICS[1]], 4: [METRICS[1]]}


class Flaky:
    """A service that fails from an iteration on, and cannot be closed then either."""

    identity = "one"

    def __init__(self, fails_at):
        self.fails_at, self.sent, self.asked = fails_at, [], 0

    def write(self, iteration, metrics):
        self.asked += 1
        if iteration >= self.fails_at:
            raise ConnectionError("the server\nhas gone")
        self.sent.append(iteration)

    def close(self):
        raise ConnectionError("it is still gone")


def test_a_logger_that_fails_is_told_once_and_the_others_go_on():
    told, flaky, sound = [], Flaky(2), Flaky(99)
    loggers = Loggers({"flaky": flaky, "sound": sound}, told.append)
    for iteration in range(5):
        loggers.write(iteration, {})
    assert (flaky.sent, flaky.asked, sound.sent) == ([0, 1], 3, [0, 1, 2, 3, 4])
    assert told == [
        "The logger flaky failed in iteration 2 (ConnectionError: the server has gone), and gets nothing more. The run "
        "continues; its own metrics.jsonl has everything."
    ]
    loggers.close()
    assert told[1].startswith("The logger sound failed when it was closed (ConnectionError: it is still gone)")


def test_a_run_trains_on_when_a_logger_fails_and_one_that_cannot_be_opened_is_refused_before_it(
    tmp_path, monkeypatch, capsys
):
    config = tmp_path / "config.toml"
    config.write_text(TINY)
    begun = []
    for name, fails_at in (("later", 1), ("sound", 99)):
        monkeypatch.setitem(LOGGERS, name, LoggerKind(lambda *_, at=fails_at: begun.append(Flaky(at)) or begun[-1]))
    run = train(load(str(config), ['board.loggers=["later","sound"]', "iterations=2"]), tmp_path / "run")
    assert (run.finished, [logger.sent for logger in begun]) == (True, [[0], [0, 1, 2]])
    assert capsys.readouterr().err.count("The logger later failed in iteration 1") == 1

    def refuses(*_):
        raise OSError("no route to host")

    monkeypatch.setitem(LOGGERS, "never", LoggerKind(refuses, advice="Ask the neighbours"))
    monkeypatch.setattr("league.training.loop.session.start_policies", lambda _: pytest.fail("it learns already"))
    with pytest.raises(UsageError, match=r"'never', which cannot be opened: OSError: no route to host\. Ask the neigh"):
        train(load(str(config), ['board.loggers=["never"]']), tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_without_a_login_wandb_is_refused_unless_it_is_offline(tmp_path, monkeypatch):
    wandb = StandIn()
    wandb.key = False
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    with pytest.raises(UsageError, match=r"nobody is logged in\. Log in with `wandb login`"):
        open_loggers(["wandb"], tmp_path, SETTINGS)
    assert wandb.begun == []
    monkeypatch.setenv("WANDB_MODE", "offline")
    open_loggers(["wandb"], tmp_path, SETTINGS)
    assert len(wandb.begun) == 1


def test_wandb_offline(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    log(tmp_path, ["wandb"], 0, 2)
    [folder] = (tmp_path / "wandb").glob("offline-run-*")
    assert len(list(folder.glob("run-*.wandb"))) == 1
    assert len(list((folder / "files/media/images").rglob("*.png"))) == 2
    assert len(list((folder / "files/media/table").rglob("*.json"))) == 2


def test_mlflow_in_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where it keeps artifacts
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    if importlib.util.find_spec("sqlalchemy") is None:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    log(tmp_path, ["mlflow"], 0, 2)
    log(tmp_path, ["mlflow"], 2, 3)
    from mlflow.tracking import MlflowClient

    [identity] = json.loads((tmp_path / "loggers.json").read_text()).values()
    history = MlflowClient().get_metric_history(identity, "kuhn_poker/score/first")
    assert [(point.step, point.value) for point in history] == [(0, 0.5), (1, 0.75), (2, 0.75)]
    assert MlflowClient().get_run(identity).data.params["credit.rule"] == "rae"
    [strange] = MlflowClient().get_metric_history(identity, "kuhn_poker_players_3_/x")
    assert strange.value == 1.0 / 3.0
    kept = {f.path for f in MlflowClient().list_artifacts(identity, "figures/3_who/payoffs/kuhn_poker_players_3_")}
    assert {path.rpartition("/")[2] for path in kept} == {"000000.png", "000001.png"}
    kept = MlflowClient().list_artifacts(identity, "transcripts/kuhn_poker/first")
    assert [file.path.rpartition("/")[2] for file in kept] == ["000000.txt", "000001.txt", "000002.txt"]


def test_trackio_on_this_machine(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))  # which it reads when it is imported
    pytest.importorskip("trackio")
    log(tmp_path, ["trackio"], 0, 2)
    assert capsys.readouterr().out == ""
    assert any((tmp_path / "trackio").rglob("*.db"))
    assert len(list((tmp_path / "trackio").rglob("*.png"))) == 2


class Collector(Flaky):
    """A service that takes figures and texts, which it keeps."""

    def __init__(self):
        super().__init__(99)
        self.figures, self.texts = [], []

    def figure(self, name, png, iteration):
        assert threading.current_thread() is threading.main_thread()
        self.figures.append((name, iteration, png[:4]))

    def text(self, name, text, iteration):
        self.texts.append((name, iteration))

    def close(self):
        pass


def test_a_run_sends_every_figure_and_transcript_that_its_own_board_has(tmp_path, monkeypatch):
    (tmp_path / "config.toml").write_text(TINY)
    collector = Collector()
    monkeypatch.setitem(LOGGERS, "all", LoggerKind(lambda *_: collector))
    settings = ['board.loggers=["all"]', "iterations=2", "board.time=1"]
    run = train(load(str(tmp_path / "config.toml"), settings), tmp_path / "run")
    events = EventAccumulator(str(run.run_dir / "tb"))
    events.Reload()
    drawn = {(name, event.step) for name in events.Tags()["images"] for event in events.Images(name)}
    assert {(name, iteration) for name, iteration, _ in collector.figures} == drawn
    assert {signature for *_, signature in collector.figures} == {b"\x89PNG"}
    told = {(name, event.step) for name in events.Tags()["tensors"] for event in events.Tensors(name)}
    assert ("transcripts/kuhn_poker/first", 2) in collector.texts
    assert set(collector.texts) <= told
