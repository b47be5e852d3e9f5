"""MLflow (https://mlflow.org/docs). MLFLOW_TRACKING_URI and MLFLOW_EXPERIMENT_NAME hold as always."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from pathlib import Path

from mlflow.entities import Metric, Param
from mlflow.tracking import MlflowClient

from league.training.board.loggers.interface import PROJECT, Settings

MOST = 100  # parameters, and metrics, in one request: fewer than any of its servers refuses
LONGEST = 500  # characters of a parameter


class MlflowLogger:
    """One run there."""

    def __init__(self, client: MlflowClient, run_id: str) -> None:
        self._client, self._run_id = client, run_id

    @property
    def identity(self) -> str:
        """Its id there."""
        return self._run_id

    def write(self, iteration: int, metrics: Mapping[str, float]) -> None:
        """Send the metrics of one iteration; names get the characters that MLflow allows."""
        now = int(time.time() * 1000)
        found = [Metric(allowed(name), value, now, iteration) for name, value in metrics.items()]
        for begin in range(0, len(found), MOST):
            self._client.log_batch(self._run_id, metrics=found[begin : begin + MOST])

    def close(self) -> None:
        """Mark the run as ended; one that is resumed runs again."""
        self._client.set_terminated(self._run_id)


def open_logger(name: str, _: Path, settings: Settings, identity: str | None) -> MlflowLogger:
    """Begin a run, or go on with one."""
    client = MlflowClient()
    if identity is not None:
        client.update_run(identity, status="RUNNING")
        return MlflowLogger(client, identity)
    experiment = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
    found = client.get_experiment_by_name(experiment)
    run = client.create_run(found.experiment_id if found else client.create_experiment(experiment), run_name=name)
    parameters = [Param(allowed(key), str(value)[:LONGEST]) for key, value in settings.items()]
    for begin in range(0, len(parameters), MOST):
        client.log_batch(run.info.run_id, params=parameters[begin : begin + MOST])
    return MlflowLogger(client, run.info.run_id)


def allowed(name: str) -> str:
    """Return a name without the characters that MLflow refuses."""
    return re.sub(r"[^\w\-./ :]", "_", name)
