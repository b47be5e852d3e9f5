"""A trainer behind the Tinker API: its client's requests, one LoRA tenant for each policy on one base.

The service scores replies by ``forward`` with its cross-entropy, whose loss is sum(-weight * log-prob) over tokens: a
``forward_backward`` with weight = -slope adds the gradient of sum(slope * log-prob), which is what a waist asks for.
This is how Tinker's own ``forward_backward_custom`` passes back the gradient of a loss.
"""

from __future__ import annotations

import json
import math
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence, Set
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as Late
from functools import partial
from http.client import HTTPException
from os import environ
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from arena.lm.lora import CONFIG_FILE, WEIGHTS_FILE
from games.common.errors import UsageError
from games.common.files import atomic_write, parse_json
from games.common.seeds import derive_seed
from league.config.context import RunContext
from league.population.storage.run_dir import STATE_FOLDER
from league.training.interfaces import LearnerLost
from learners.update.optimizers import BETAS
from learners.waist import AskedReply

if TYPE_CHECKING:
    from league.config.learning import TinkerSettings

EPSILON = 1e-8  # of AdamW, as in PyTorch
PROBE = 5.0  # seconds between two looks at whether a service that does not answer is there at all
HOUR = 3600  # seconds; the service keeps what it exported no shorter
SERVER_ERROR = 500  # and above: a status of HTTP that may pass
GONE = 3  # such looks in a row that find nobody
MOST_BYTES = {CONFIG_FILE: 1 << 20, WEIGHTS_FILE: 1 << 32}  # of a downloaded file
CHUNK = 1 << 20  # bytes of it that are read at once
LONGEST_PATH = 1000  # characters of a state's address
# What the client raises for an answer that it cannot use, beside errors of its own.
ANSWERS_WITH = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    RuntimeError,
    ArithmeticError,
    OSError,
    ImportError,
    CancelledError,
    MemoryError,
    HTTPException,
)
PREFIX = "base_model.model."  # before the names in PEFT's files


class TinkerTrainer:
    """A policy's LoRA tenant (``learners.waist.Trainer``). It is made when it is first needed, or by ``load``."""

    def __init__(self, context: RunContext, policy: str, settings: TinkerSettings) -> None:
        config = context.config
        self._policy, self._settings = policy, settings
        self._resume = f"Start it again, and then: league train --resume --run-dir {context.run_dir}"
        self._base = settings.base or config.model_of(policy).source
        self._shape, self._decay = config.policy(policy), config.optimizer.weight_decay
        self._seed = derive_seed(config.seed, "adapter", policy) % 2**63
        self._url = (settings.url or environ.get("TINKER_BASE_URL", "")).rstrip("/")
        self._service: Any = None
        self._client: Any = None
        self._exports = 0
        self._run = str(Path(context.run_dir).resolve())
        self._list = Path(context.run_dir) / STATE_FOLDER / f"{policy}.trainer.json"  # the states that it keeps for us

    def score(self, replies: Sequence[AskedReply]) -> list[Tensor]:
        """See ``Trainer``."""
        data = [_datum(asked, torch.ones(len(asked.reply))) for asked in replies]
        client = self._opened()
        return self._logprobs(self._wait(lambda: client.forward(data, "cross_entropy"), "score replies"), replies)

    def accumulate(self, replies: Sequence[AskedReply], slopes: Sequence[Tensor]) -> None:
        """See ``Trainer``."""
        data = [_datum(asked, -row.float()) for asked, row in zip(replies, slopes, strict=True)]
        client = self._opened()
        self._wait(lambda: client.forward_backward(data, "cross_entropy"), "compute a gradient")

    def step(self, learning_rate: float, max_norm: float) -> float | None:
        """See ``Trainer``."""
        from tinker import AdamParams

        client = self._opened()
        params = AdamParams(
            learning_rate=learning_rate,
            beta1=BETAS[0],
            beta2=BETAS[1],
            eps=EPSILON,
            weight_decay=self._decay,
            grad_clip_norm=max_norm,
        )
        metrics = self._wait(lambda: client.optim_step(params), "take an optimiser step").metrics or {}
        norms = [float(value) for name, value in metrics.items() if name.partition(":")[0].endswith("grad_norm")]
        if norms and not 0.0 <= norms[0] < math.inf:
            raise self._wrong(f"took a step with a gradient whose norm is {norms[0]:g}")
        return norms[0] if norms else None

    def export(self) -> Mapping[str, Tensor]:
        """See ``Trainer``."""
        from tinker import RestClient

        client = self._opened()
        self._exports += 1
        name = f"{self._policy}-{self._exports:06d}"
        saved = self._wait(lambda: client.save_weights_external(name, ttl_seconds=HOUR), "export its weights")
        rest = RestClient(base_url=self._url or None)
        urls = self._wait(lambda: rest.get_external_weights_urls(saved.path), "say where its weights are").urls
        for file in (CONFIG_FILE, WEIGHTS_FILE):
            if file not in urls:
                raise self._wrong(f"exported {', '.join(sorted(urls)) or 'nothing'} and no {file}")
        self._check_shape(self._download(urls[CONFIG_FILE], CONFIG_FILE))
        content = self._download(urls[WEIGHTS_FILE], WEIGHTS_FILE)
        try:
            weights = load(content)
        except (SafetensorError, *ANSWERS_WITH) as error:
            raise self._wrong(f"exported a {WEIGHTS_FILE} that cannot be read ({_said(error)})") from error
        spoilt = sorted(name for name, weight in weights.items() if not bool(weight.isfinite().all()))
        if spoilt:
            raise self._wrong(f"exported weights that are not finite: {spoilt[0][:200]}")
        return {name.removeprefix(PREFIX): weight for name, weight in weights.items()}

    def save(self, name: str) -> str:
        """See ``Trainer``."""
        client = self._opened()
        seconds = None if self._settings.days is None else self._settings.days * 24 * HOUR
        saved = self._wait(lambda: client.save_state(name, ttl_seconds=seconds, overwrite=True), "save its state")
        path = str(saved.path)
        if not path.isprintable() or not 0 < len(path) <= LONGEST_PATH:
            raise self._wrong(f"says that its state is at {path[:80]!r}, which is no address")
        if path not in (kept := self._kept()):
            self._write_kept([*kept, path])
        return path

    def keep_only(self, paths: Set[str]) -> None:
        """See ``Trainer``. States of other runs, of which this one may be a copy, are never deleted."""
        from tinker import APIStatusError, RestClient

        kept = self._kept()
        left = [path for path in kept if path in paths]
        doomed = [path for path in kept if path not in paths]
        rest: Any = RestClient(base_url=self._url or None) if doomed else None
        while doomed:
            try:
                self._wait(partial(rest.delete_checkpoint_from_tinker_path, doomed[0]), "delete an older state")
            except LearnerLost as error:
                if not isinstance(error.__cause__, APIStatusError) or error.__cause__.status_code >= SERVER_ERROR:
                    break  # those are tried again with the next checkpoint
            doomed = doomed[1:]  # it has gone, or the service does not delete: then it expires
        if left + doomed != kept:
            self._write_kept(left + doomed)

    def _kept(self) -> list[str]:
        """Return the states that this run has saved, and not deleted; none where the list is another folder's."""
        try:
            stored = json.loads(self._list.read_text(encoding="utf-8"))
            return [str(path) for path in stored["states"]] if stored["run"] == self._run else []
        except (OSError, ValueError, KeyError, TypeError):
            return []

    def _write_kept(self, states: Sequence[str]) -> None:
        atomic_write(self._list, json.dumps({"run": self._run, "states": list(states)}))

    def load(self, path: str) -> None:
        """See ``Trainer``."""
        service = self._connected()
        self._client = self._wait(
            lambda: service.create_training_client_from_state_with_optimizer(path), f"load its state {path}"
        )
        self._check_base()

    def _opened(self) -> Any:
        """Return the tenant's client. Raises UsageError for a service that trains another base."""
        if self._client is None:
            service = self._connected()
            self._client = self._wait(
                lambda: service.create_lora_training_client(
                    self._base, rank=self._shape.rank, seed=self._seed, train_unembed=False
                ),
                f"make an adapter on {self._base}",
            )
            self._check_base()
        return self._client

    def _check_base(self) -> None:
        client = self._client
        told = self._wait(lambda: _Thread(lambda: client.get_info().model_data.model_name), "name its base")
        if told != self._base:
            raise UsageError(
                f"The service at {self._place} trains {told}, but the run needs {self._base}. Set "
                "trainer.tinker.base to the name of the run's own base model there, or model.source to that model."
            )

    def _connected(self) -> Any:
        """Return the service's client. Raises UsageError where nobody listens, or where the key is missing."""
        if self._service is None:
            if not environ.get("TINKER_API_KEY"):
                raise UsageError(
                    "trainer.kind = 'tinker' needs a key in the environment variable TINKER_API_KEY; your own server "
                    "takes any key that starts with tml-."
                )
            if self._url and not self._answers():
                raise UsageError(
                    f"Nobody answers at trainer.tinker.url = {self._url!r}. Start the server there, or correct it."
                )
            from tinker import ServiceClient

            service = ServiceClient(base_url=self._url or None)
            self._wait(lambda: _Thread(lambda: service.holder), "open a session")
            self._service = service
        return self._service

    @property
    def _place(self) -> str:
        return self._url or "Tinker's own address"

    def _answers(self) -> bool:
        """Return whether anybody answers at the address, with anything."""
        try:
            with urllib.request.urlopen(f"{self._url}/api/v1/healthz", timeout=PROBE):
                return True
        except urllib.error.HTTPError:
            return True
        except (OSError, ValueError, HTTPException) as error:
            return isinstance(error, TimeoutError) or isinstance(getattr(error, "reason", None), TimeoutError)

    def _wait(self, ask: Callable[[], Any], what: str) -> Any:
        """Return the answer to a request. Raises LearnerLost, with what was asked, if there is none."""
        from tinker import TinkerError

        end, silent = monotonic() + self._settings.seconds, 0
        try:
            future = ask()
            while True:
                left = end - monotonic()
                try:
                    return future.result(timeout=max(min(PROBE, left), 0.0))
                except Late:
                    silent = silent + 1 if self._url and not self._answers() else 0
                    if silent >= GONE:
                        raise LearnerLost(
                            f"The trainer at {self._place} should {what} for policy {self._policy!r}, but has ended. "
                            f"{self._resume}"
                        ) from None
                    if left <= 0.0:
                        raise LearnerLost(
                            f"The trainer at {self._place} should {what} for policy {self._policy!r}, but has not "
                            f"answered for {self._settings.seconds:g} seconds (trainer.tinker.seconds). "
                            f"{self._resume}"
                        ) from None
        except (TinkerError, *ANSWERS_WITH) as error:
            if isinstance(error, LearnerLost):
                raise
            raise LearnerLost(
                f"The trainer at {self._place} should {what} for policy {self._policy!r}, but answered: {_said(error)}"
            ) from error

    def _wrong(self, what: str) -> LearnerLost:
        return LearnerLost(f"The trainer at {self._place} {what}, for policy {self._policy!r}.")

    def _logprobs(self, output: Any, replies: Sequence[AskedReply]) -> list[Tensor]:
        """Return the log-probs of an answer, once they are as many as were asked for, and finite."""
        if len(output.loss_fn_outputs) != len(replies):
            raise self._wrong(f"scored {len(output.loss_fn_outputs)} of {len(replies)} replies")
        rows = []
        for told, asked in zip(output.loss_fn_outputs, replies, strict=True):
            if "logprobs" not in told:
                raise self._wrong(f"scored a reply without log-probs ({', '.join(sorted(told)) or 'nothing'})")
            expected = len(asked.prompt) + len(asked.reply) - 1
            try:
                row = told["logprobs"].to_torch().float().flatten()
            except ANSWERS_WITH as error:
                raise self._wrong(f"scored a text of {expected} tokens in no readable way ({_said(error)})") from error
            if len(row) != expected:
                raise self._wrong(f"scored {len(row)} tokens of a text of {expected}")
            row = row[len(asked.prompt) - 1 :]
            if not bool(row.isfinite().all()) or bool((row > 1e-3).any()):
                raise self._wrong(f"gave {float(row.max()):g} as a log-prob, which is impossible")
            rows.append(row)
        return rows

    def _download(self, url: str, file: str) -> bytes:
        """Return a file of the service, of bounded size."""
        if not url.startswith(("http://", "https://")):
            raise self._wrong(f"says that {file} is at {url[:80]!r}, which is not a web address")
        content, most, end = bytearray(), MOST_BYTES[file], monotonic() + self._settings.seconds
        try:
            with urllib.request.urlopen(url, timeout=self._settings.seconds) as answer:
                while piece := answer.read1(CHUNK):
                    content += piece
                    if len(content) > most:
                        raise self._wrong(f"gave a {file} of more than {most >> 20} MiB")
                    if monotonic() > end:
                        raise self._wrong(f"did not give all of {file} within {self._settings.seconds:g} seconds")
            return bytes(content)
        except (OSError, ValueError, HTTPException, MemoryError) as error:
            raise self._wrong(f"did not give {file} ({_said(error)})") from error

    def _check_shape(self, content: bytes) -> None:
        """Refuse an adapter that is scaled in another way than the one that plays."""
        try:
            config = parse_json(content.decode())
            rank, alpha = int(config["r"]), float(config["lora_alpha"])
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            raise self._wrong(f"exported a {CONFIG_FILE} that does not describe an adapter ({_said(error)})") from error
        if (rank, alpha) != (self._shape.rank, self._shape.alpha):
            raise UsageError(
                f"The trainer at {self._place} has an adapter of rank {rank} and alpha {alpha:g}, but policies."
                f"{self._policy} plays rank {self._shape.rank} and alpha {self._shape.alpha:g}. Set policies."
                f"{self._policy}.rank = {rank} and policies.{self._policy}.alpha = {alpha:g}."
            )


def _said(error: BaseException) -> str:
    """Return what an error says, in one line of bounded length."""
    return " ".join(str(error).split())[:300] or type(error).__name__


class _Thread:
    """A call in its own thread, with a result like a future's: the client opens sessions without a limit."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._result: list[Any] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(call,), daemon=True)
        self._thread.start()

    def _run(self, call: Callable[[], Any]) -> None:
        try:
            self._result.append(call())
        except BaseException as error:  # noqa: BLE001  # raised again where the result is asked for
            self._error = error

    def result(self, timeout: float) -> Any:
        """Return what the call returned. Raises TimeoutError while it has not."""
        self._thread.join(timeout)
        if self._error is not None:
            raise self._error
        if not self._result:
            raise Late
        return self._result[0]


def _datum(asked: AskedReply, weights: Tensor) -> Any:
    """Return a text as the API takes it: each position's next token and the weight of its log-prob, 0 in the prompt."""
    from tinker import Datum, ModelInput, types

    text = (*asked.prompt, *asked.reply)
    weights = torch.cat([torch.zeros(len(asked.prompt) - 1), weights])
    return Datum(
        model_input=ModelInput.from_ints(list(text[:-1])),
        loss_fn_inputs={
            "target_tokens": types.TensorData.from_torch(torch.tensor(text[1:])),
            "weights": types.TensorData.from_torch(weights),
        },
    )
