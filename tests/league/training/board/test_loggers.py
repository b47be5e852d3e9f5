"""Services get each iteration's metrics once, under one name before and after a resume; a missing one is told."""

import importlib
import json
import sys
from types import ModuleType, SimpleNamespace

import pytest

from games.common.errors import UsageError
from league.cli import main
from league.config.context import run_context
from league.config.load import load
from league.training.board.board import Board
from league.training.board.loggers.interface import LOGGERS, check_loggers, open_loggers
from league.training.board.metrics_log import MetricsLog
from league.training.monitors.phases import PhaseClock

SETTINGS = {"seed": 3, "credit.rule": "rae", "games.kuhn_poker(players=3).matches": 8}
METRICS = [{"kuhn_poker/score/first": 0.5, "kuhn_poker(players=3)/x": 1.0 / 3.0}, {"kuhn_poker/score/first": 0.75}]


def log(tmp_path, kinds, first, iterations):
    """Log iterations from the ``first`` one on, as a process of a run would."""
    loggers = open_loggers(kinds, tmp_path, SETTINGS)
    for iteration in range(first, iterations):
        for logger in loggers:
            logger.write(iteration, METRICS[min(iteration, 1)])
    for logger in loggers:
        logger.close()


def test_without_loggers_nothing_is_written(tmp_path):
    assert open_loggers([], tmp_path, SETTINGS) == []
    assert list(tmp_path.iterdir()) == []


def test_a_logger_that_is_unknown_or_not_installed_is_refused(monkeypatch, capsys):
    with pytest.raises(UsageError, match=r"no logger named 'wandbb'. Did you mean wandb\? Set board\.loggers"):
        check_loggers(["wandbb"])
    monkeypatch.setattr("league.training.board.loggers.interface.find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"mlflow is not installed\. Install it: pip install 'llm-league\[mlflow\]'"):
        check_loggers(["mlflow"])
    assert main(["train", "pocket", "--set", 'board.loggers=["trackio"]', "--run-dir", "runs/never"]) == 2
    assert "trackio is not installed" in capsys.readouterr().err


class StandIn(ModuleType):
    """A module in wandb's place that keeps what it is told."""

    def __init__(self):
        super().__init__("wandb")
        self.begun, self.steps = [], {}
        self.Settings = SimpleNamespace

    def init(self, **given):
        self.begun.append(given)
        return SimpleNamespace(id=given["id"], step=len(self.steps), log=self.log, finish=lambda: None)

    def log(self, metrics, step):
        self.steps.setdefault(step, []).append(metrics)


def test_a_resumed_run_goes_on_under_its_name(tmp_path, monkeypatch):
    wandb = StandIn()
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    sys.modules.pop(LOGGERS["wandb"].module, None)
    log(tmp_path, ["wandb"], 0, 3)
    log(tmp_path, ["wandb"], 2, 4)  # it was killed before iteration 2 was saved
    first, second = (given["id"] for given in wandb.begun)
    assert first == second
    assert json.loads((tmp_path / "loggers.json").read_text()) == {"wandb": first}
    assert wandb.begun[0]["config"] == SETTINGS
    assert {step: len(found) for step, found in wandb.steps.items()} == {0: 1, 1: 1, 2: 1, 3: 1}
    assert wandb.steps[0] == [METRICS[0]]
    sys.modules.pop(LOGGERS["wandb"].module)


def test_a_logger_that_is_turned_on_later_gets_what_was_logged_before(tmp_path, monkeypatch):
    """From the run's own log, under the short names of games, once."""
    wandb = StandIn()
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    sys.modules.pop(LOGGERS["wandb"].module, None)
    with MetricsLog(tmp_path) as kept:
        for iteration in range(3):
            kept.write(iteration, METRICS[min(iteration, 1)])
    config = load("pocket", ['board.loggers=["wandb"]', "board.time=0"])
    for resumed_at in (3, 4):
        board = Board(run_context(config, tmp_path), SimpleNamespace(), PhaseClock())
        board.write(resumed_at, METRICS[1], [], None)
        board.close()
    assert wandb.steps == {0: [METRICS[0]], 1: [METRICS[1]], 2: [METRICS[1]], 3: [METRICS[1]], 4: [METRICS[1]]}
    sys.modules.pop(LOGGERS["wandb"].module)


def test_wandb_offline(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    log(tmp_path, ["wandb"], 0, 2)
    assert len(list((tmp_path / "wandb").glob("offline-run-*/run-*.wandb"))) == 1


def test_mlflow_in_a_file(tmp_path, monkeypatch):
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


def test_trackio_on_this_machine(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))  # which it reads when it is imported
    pytest.importorskip("trackio")
    log(tmp_path, ["trackio"], 0, 2)
    assert capsys.readouterr().out == ""
    assert any((tmp_path / "trackio").rglob("*.db"))
