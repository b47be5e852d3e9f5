"""Services that get a run's metrics, figures and texts in addition to its own files, by their names in
``board.loggers``.

A service's package is installed as an extra, and imported only when a run that names it starts. A service that cannot
be opened is refused before anything is trained; one that fails later is reported once and then skipped, and the run
continues: its own files have everything.
"""

from __future__ import annotations

import io
import json
import os
import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from games.common.errors import UsageError
from games.common.files import atomic_write
from games.common.registry import Entry, Registry
from league.training.board.metrics_log import verbatim

PROJECT = "league"  # the project of runs in a service, unless its own environment variable names another
IDENTITIES_FILE = "loggers.json"  # in a run's folder: the run's id in each service, for a resumed run
MOST = 100  # of MLflow's parameters and metrics in one request: a number that all its servers accept
LONGEST = 500  # characters of a parameter of MLflow's
PATIENCE = 20.0  # seconds in which Weights & Biases must answer when a run begins

Settings = Mapping[str, bool | float | str]  # of the run, by their dotted names


class Logger(Protocol):
    """A service that gets a run's metrics.

    It may also have ``figure(name, png, iteration)`` and ``text(name, text, iteration)``, and then gets the board's
    figures and transcripts. A figure comes after the metrics of its iteration, when it has been drawn.
    """

    @property
    def identity(self) -> str:
        """The service's id of this run, by which it is opened again."""
        ...

    def write(self, iteration: int, metrics: Mapping[str, float]) -> None:
        """Send one iteration's metrics. An iteration may be sent again if the process that sent it was killed."""
        ...

    def close(self) -> None:
        """Send whatever is left."""
        ...


@dataclass(frozen=True, slots=True)
class LoggerKind(Entry[Callable[[str, Path, Settings, str | None], Logger]]):
    """A kind of logger. ``make`` starts a run under a name, or continues the one with an identity.

    It gets the run's name, folder and settings, and the identity that the run had, None if it is new.
    """

    package: str = ""  # the package that must be installed
    advice: str = ""  # what to do if it cannot be opened


class WandbLogger:
    """One run at Weights & Biases. It does not accept an iteration twice: steps only increase."""

    def __init__(self, run: Any) -> None:
        self._run = run

    @property
    def identity(self) -> str:
        """Its id there."""
        return str(self._run.id)

    def write(self, iteration: int, metrics: Mapping[str, float]) -> None:
        """Send the metrics of one iteration as a step."""
        if iteration >= self._run.step:
            self._run.log(dict(metrics), step=iteration)

    def figure(self, name: str, png: bytes, iteration: int) -> None:
        """Send a figure with the newest step: a step that is over accepts nothing."""
        import wandb

        image = wandb.Image(_image(png), caption=f"iteration {iteration}")
        self._run.log({f"figures/{name}": image}, step=max(iteration, self._run.step))

    def text(self, name: str, text: str, iteration: int) -> None:
        """Send a text as a table of one row."""
        import wandb

        table = wandb.Table(columns=["iteration", "text"], data=[[iteration, text]])
        self._run.log({name: table}, step=max(iteration, self._run.step))

    def close(self) -> None:
        """Finish; `wandb sync` sends what was logged offline."""
        self._run.finish()


def open_wandb(name: str, run_dir: Path, settings: Settings, identity: str | None) -> WandbLogger:
    """Weights & Biases (https://docs.wandb.ai). WANDB_MODE, WANDB_PROJECT and its other variables apply."""
    import wandb

    if os.environ.get("WANDB_MODE", "online") in ("online", "shared") and not _logged_in_to(wandb):
        raise UsageError("nobody is logged in")  # it would ask for a key in the middle of the live view
    run = wandb.init(
        project=os.environ.get("WANDB_PROJECT", PROJECT),
        name=name,
        config=dict(settings),
        id=identity or secrets.token_hex(4),
        resume="allow",
        dir=str(run_dir),
        settings=wandb.Settings(console="off", silent=True, init_timeout=PATIENCE),
    )
    return WandbLogger(run)


def _logged_in_to(wandb: Any) -> bool:
    """Return whether there is a key for the server, without asking for one."""
    wandb.setup(wandb.Settings(silent=True))
    try:
        return bool(wandb.login(prompt=False))
    except TypeError:  # in versions without this argument
        return bool(wandb.api.api_key)


class MlflowLogger:
    """One run in MLflow."""

    def __init__(self, client: Any, run_id: str) -> None:
        self._client, self._run_id = client, run_id

    @property
    def identity(self) -> str:
        """Its id there."""
        return self._run_id

    def write(self, iteration: int, metrics: Mapping[str, float]) -> None:
        """Send the metrics of one iteration; names get the characters that MLflow allows."""
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        rows = [Metric(allowed(name), value, now, iteration) for name, value in metrics.items()]
        for begin in range(0, len(rows), MOST):
            self._client.log_batch(self._run_id, metrics=rows[begin : begin + MOST])

    def figure(self, name: str, png: bytes, iteration: int) -> None:
        """Keep a figure among the run's artifacts."""
        self._client.log_image(self._run_id, _image(png), f"figures/{allowed(name)}/{iteration:06d}.png")

    def text(self, name: str, text: str, iteration: int) -> None:
        """Keep a text among the run's artifacts."""
        self._client.log_text(self._run_id, text, f"{allowed(name)}/{iteration:06d}.txt")

    def close(self) -> None:
        """Mark the run as ended; one that is resumed runs again."""
        self._client.set_terminated(self._run_id)


def open_mlflow(name: str, _: Path, settings: Settings, identity: str | None) -> MlflowLogger:
    """MLflow (https://mlflow.org/docs). MLFLOW_TRACKING_URI and MLFLOW_EXPERIMENT_NAME apply."""
    from mlflow.entities import Param
    from mlflow.tracking import MlflowClient

    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")  # by default it retries for four minutes
    client = MlflowClient()
    if identity is not None:
        client.update_run(identity, status="RUNNING")
        return MlflowLogger(client, identity)
    experiment = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
    existing = client.get_experiment_by_name(experiment)
    run = client.create_run(existing.experiment_id if existing else client.create_experiment(experiment), run_name=name)
    parameters = [Param(allowed(key), str(value)[:LONGEST]) for key, value in settings.items()]
    for begin in range(0, len(parameters), MOST):
        client.log_batch(run.info.run_id, params=parameters[begin : begin + MOST])
    return MlflowLogger(client, run.info.run_id)


def allowed(name: str) -> str:
    """Return a name without the characters that MLflow refuses."""
    return re.sub(r"[^\w\-./ :]", "_", name)


class TrackioLogger:
    """One run in Trackio."""

    def __init__(self, run: Any, identity: str) -> None:
        self._run, self._identity = run, identity

    @property
    def identity(self) -> str:
        """Its name there."""
        return self._identity

    def write(self, iteration: int, metrics: Mapping[str, float]) -> None:
        """Write the metrics of one iteration as a step."""
        self._run.log(dict(metrics), step=iteration)

    def figure(self, name: str, png: bytes, iteration: int) -> None:
        """Write a figure."""
        import trackio

        with redirect_stdout(io.StringIO()):
            image = trackio.Image(_image(png), caption=f"iteration {iteration}")
            self._run.log({f"figures/{name}": image}, step=iteration)

    def text(self, name: str, text: str, iteration: int) -> None:
        """Write a text, verbatim."""
        import trackio

        self._run.log({name: trackio.Markdown(verbatim(text))}, step=iteration)

    def close(self) -> None:
        """Write whatever is left."""
        with redirect_stdout(io.StringIO()):  # it would print where the live view is
            self._run.finish()


def open_trackio(name: str, _: Path, settings: Settings, identity: str | None) -> TrackioLogger:
    """Trackio (https://huggingface.co/docs/trackio), which keeps runs on this machine; TRACKIO_PROJECT groups them."""
    import trackio

    project = os.environ.get("TRACKIO_PROJECT", PROJECT)
    called = identity or f"{name}-{secrets.token_hex(3)}"
    alone = {"embed": False, "auto_log_gpu": False, "auto_log_cpu": False}  # the run's metrics, and nothing else
    with redirect_stdout(io.StringIO()):
        run = trackio.init(project=project, name=called, config=dict(settings), resume="allow", **alone)
    return TrackioLogger(run, called)


LOGGERS: Registry[LoggerKind] = Registry(
    "loggers",
    "logger",
    LoggerKind,
    "board.loggers",
    {
        "wandb": LoggerKind(
            open_wandb,
            package="wandb",
            advice="Log in with `wandb login`, set WANDB_BASE_URL to a server that answers, or WANDB_MODE=offline, "
            "which keeps the run on this machine",
        ),
        "mlflow": LoggerKind(
            open_mlflow,
            package="mlflow",
            advice="Set MLFLOW_TRACKING_URI to a server that answers, or to a file such as sqlite:///mlflow.db, which "
            "needs sqlalchemy and alembic: pip install 'llm-league[mlflow]'",
        ),
        "trackio": LoggerKind(
            open_trackio, package="trackio", advice="Set TRACKIO_DIR to a folder that can be written"
        ),
    },
)
register = LOGGERS.register


def check_loggers(names: Sequence[str]) -> None:
    """Raise UsageError, with what to install, for loggers that are unknown or not installed."""
    for name in names:
        package = LOGGERS[name].package
        spec = find_spec(package) if package else None
        if package and (spec is None or spec.origin is None):
            raise UsageError(
                f"board.loggers names {name!r}, but {package} is not installed. Install it: "
                f"pip install 'llm-league[{name}]', or leave it out; TensorBoard is always there."
            )


class Loggers:
    """A run's loggers, opened; one that fails is reported to ``warn`` once, and gets nothing more."""

    def __init__(self, opened: Mapping[str, Logger] = {}, warn: Callable[[str], None] = print) -> None:
        self._opened, self._warn = dict(opened), warn

    def write(self, iteration: int, metrics: Mapping[str, float]) -> None:
        """Send the metrics of one iteration."""
        self._each(lambda logger: logger.write(iteration, metrics), f"in iteration {iteration}")

    def figure(self, name: str, png: bytes, iteration: int) -> None:
        """Send a figure, as a PNG, to those that take figures."""
        self._each(lambda logger: getattr(logger, "figure", _nothing)(name, png, iteration), f"with the figure {name}")

    def text(self, name: str, text: str, iteration: int) -> None:
        """Send a text to those that take texts."""
        self._each(lambda logger: getattr(logger, "text", _nothing)(name, text, iteration), f"with the text {name}")

    def close(self) -> None:
        """Send whatever is left."""
        self._each(lambda logger: logger.close(), "when it was closed")

    def _each(self, send: Callable[[Logger], None], when: str) -> None:
        for name, logger in list(self._opened.items()):
            try:
                send(logger)
            except Exception as error:  # noqa: BLE001  # whatever a service raises is no reason to lose a run
                del self._opened[name]
                self._warn(
                    f"The logger {name} failed {when} ({_in_a_line(error)}), and gets nothing more. The run "
                    "continues; its own metrics.jsonl has everything."
                )


def _nothing(*_: Any) -> None:
    """Do nothing: this service takes only numbers."""


def _image(png: bytes) -> Any:
    """Return a PNG as a picture of Pillow's."""
    from PIL import Image

    return Image.open(io.BytesIO(png)).convert("RGB")


def open_loggers(
    names: Sequence[str],
    run_dir: Path,
    settings: Settings,
    earlier: Callable[[], Iterable[Mapping[str, float]]] = list,
    warn: Callable[[str], None] = print,
) -> Loggers:
    """Return a run's loggers, opened; a resumed run continues under the identity that it had.

    A new logger is first sent what ``earlier`` returns: the metrics of each iteration so far, with the key "iteration".
    Raises UsageError, with what to do, for one that cannot be opened.
    """
    path = run_dir / IDENTITIES_FILE
    identities: dict[str, str] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    loggers: dict[str, Logger] = {}
    for name in names:
        try:
            logger = LOGGERS[name].make(run_dir.resolve().name, run_dir, settings, identities.get(name))
            if name not in identities:
                for line in earlier():
                    logger.write(int(line["iteration"]), {key: line[key] for key in line if key != "iteration"})
        except Exception as error:  # of any kind: it comes from the service
            Loggers(loggers).close()
            advice = f"{LOGGERS[name].advice}. " if LOGGERS[name].advice else ""
            raise UsageError(
                f"board.loggers names {name!r}, which cannot be opened: {_in_a_line(error)}. {advice}Or leave it out: "
                "TensorBoard and metrics.jsonl are always there."
            ) from error
        loggers[name], identities[name] = logger, logger.identity
    if names:
        atomic_write(path, json.dumps(identities, indent=1) + "\n")
    return Loggers(loggers, warn)


def _in_a_line(error: Exception) -> str:
    """Return an error's message in one line of moderate length."""
    words = " ".join(str(error).split()).rstrip(".")
    if isinstance(error, UsageError):
        return words
    return f"{type(error).__name__}: {words[:160]}{'…' if len(words) > 160 else ''}" if words else type(error).__name__
