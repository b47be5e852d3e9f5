"""The engine on vLLM's servers, against small ones that speak the same wire: names, routing, silence, wrong answers."""

import asyncio
import json
import math
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from arena.errors import LostEngine, RetryableError, ServerError
from arena.samplers import vllm_servers
from arena.samplers.vllm_servers import ServerPool, VllmServers, read_completion
from arena.samplers.vllm_shape import VllmShape, Weights

ALLOWED = {"max_tokens": 1, "allowed_token_ids": [3, 5], "logprobs": 2}
LOGPROBS = {3: math.log(0.25), 5: math.log(0.75)}


def completion(ids=(5,), logprobs=LOGPROBS):
    names = {f"token_id:{token}": value for token, value in logprobs.items()}
    listed = [f"token_id:{token}" for token in ids]
    return {
        "choices": [
            {
                "text": "",
                "token_ids": list(ids),
                "logprobs": {
                    "tokens": listed,
                    "token_logprobs": [names.get(name) for name in listed],
                    "top_logprobs": [names] * len(ids),
                },
            }
        ]
    }


class Wire:
    """A server that loads adapters and completes prompts; ``behave(server, body)`` answers in its place."""

    def __init__(self, behave=None):
        self.behave, self.adapters, self.asked, self.silent = behave, {}, [], threading.Event()
        self.events, self.lock, self.free = [], threading.Lock(), threading.Event()
        self.free.set()
        self.http = _Http(("127.0.0.1", 0), type("Bound", (_Handler,), {"wire": self}))
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def answer(self, path, body):
        """Return status and data."""
        if path == "/health":
            return 200, None
        if path == "/v1/models":
            return 200, {"data": [{"id": "model", "parent": None}]}
        if path == "/v1/load_lora_adapter":
            with self.lock:
                self.events.append(("load", body["lora_name"]))
                if body["lora_name"] in self.adapters:
                    return 400, {
                        "error": {"message": f"The lora adapter '{body['lora_name']}' has already been loaded"}
                    }
                self.adapters[body["lora_name"]] = body["lora_path"]
            return 200, "Success"
        if path == "/v1/unload_lora_adapter":
            with self.lock:
                self.events.append(("unload", body["lora_name"]))
                del self.adapters[body["lora_name"]]
            return 200, "Success"
        assert path == "/v1/completions"
        with self.lock:
            self.asked.append(body)
        self.free.wait(10)
        if body["model"] != "model" and body["model"] not in self.adapters:
            return 404, {"error": {"message": "does not exist"}}
        return (200, completion()) if self.behave is None else self.behave(self, body)

    def close(self):
        self.silent.clear()
        self.free.set()
        self.http.shutdown()
        self.http.server_close()


class _Http(ThreadingHTTPServer):
    request_queue_size = 128


class _Handler(BaseHTTPRequestHandler):
    wire = None

    def _serve(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or b"null")
        if self.wire.silent.is_set():
            threading.Event().wait(1)
            return
        status, data = self.wire.answer(self.path, body)
        sent = data if isinstance(data, bytes) else json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    do_GET = do_POST = _serve  # noqa: N815

    def log_message(self, *_):
        pass


@pytest.fixture
def wires(monkeypatch):
    monkeypatch.setattr(vllm_servers, "LOOK", 0.02)
    made = [Wire(), Wire()]
    yield made
    for wire in made:
        wire.close()


@pytest.fixture
def engine(wires, tmp_path):
    made = VllmServers("model", VllmShape(True), tmp_path / "log", ServerPool(urls=tuple(w.url for w in wires)))
    yield made
    made.close()


def patient(wires, tmp_path, seconds):
    pool = ServerPool(urls=tuple(wire.url for wire in wires), timeout=seconds)
    return VllmServers("model", VllmShape(True), tmp_path / "log", pool)


def adapter(number):
    return Weights(f"main#{number}", number, "main", Path("/adapters") / str(number))


def ask(engine, *weights):
    futures = [engine.submit(engine.generate((7, 8, 9), one, **ALLOWED)) for one in weights]
    return [future.result(20) for future in futures]


def test_ids_go_in_and_ids_and_log_probs_come_out(engine, wires):
    (answer,) = ask(engine, adapter(1))
    assert answer.token_ids == (5,)
    assert {token: one.logprob for token, one in answer.logprobs[0].items()} == LOGPROBS
    (body,) = [body for wire in wires for body in wire.asked]
    assert body["prompt"] == [7, 8, 9]
    assert {name: body[name] for name in ALLOWED} == ALLOWED
    assert body["return_token_ids"]
    assert body["ignore_eos"]


def test_each_version_has_a_name_of_its_own_and_is_loaded_once_and_unloaded(engine, wires):
    ask(engine, adapter(1), adapter(1), adapter(2), adapter(1))
    loaded = [name for wire in wires for kind, name in wire.events if kind == "load"]
    assert len(loaded) == len(set(loaded)) == 2
    assert sorted(path for wire in wires for path in wire.adapters.values()) == ["/adapters/1", "/adapters/2"]
    engine.forget(adapter(1))
    ask(engine, adapter(2))
    asyncio.run(asyncio.sleep(0.1))
    assert sorted(path for wire in wires for path in wire.adapters.values()) == ["/adapters/2"]


def test_two_engines_share_no_name(engine, wires, tmp_path):
    other = patient(wires, tmp_path, 5.0)
    ask(engine, adapter(1))
    ask(other, adapter(1))
    names = {name for wire in wires for name in wire.adapters}
    other.close()
    assert len(names) == 2
    assert len({name for wire in wires for name in wire.adapters}) == 1  # which its engine has not closed


def test_the_base_is_asked_by_its_own_name(engine, wires):
    ask(engine, adapter(1)._replace(bare=True))
    assert [body["model"] for wire in wires for body in wire.asked] == ["model"]


@pytest.mark.thorough
def test_a_popular_adapter_is_loaded_on_several_servers_and_a_rare_one_on_one(engine, wires):
    for wire in wires:
        wire.free.clear()
    futures = [engine.submit(engine.generate((7,), adapter(1), **ALLOWED)) for _ in range(40)]
    futures += [engine.submit(engine.generate((7,), adapter(2), **ALLOWED)) for _ in range(2)]
    asyncio.run(asyncio.sleep(0.2))
    for wire in wires:
        wire.free.set()
    assert all(future.result(20).token_ids == (5,) for future in futures)
    where = Counter(path for wire in wires for path in wire.adapters.values())
    assert where == {"/adapters/1": 2, "/adapters/2": 1}
    shares = [len(wire.asked) for wire in wires]
    assert abs(shares[0] - shares[1]) <= 2 * vllm_servers.SPREAD
    assert sum(shares) == 42  # each was asked once


@pytest.mark.thorough
def test_a_server_that_falls_silent_is_left_out_and_comes_back(wires, tmp_path):
    engine = patient(wires, tmp_path, 0.3)
    try:
        wires[0].silent.set()
        answers = ask(engine, *[adapter(number) for number in range(1, 9)])
        assert len(answers) == 8
        assert len(wires[1].asked) == 8  # each request is answered once
        wires[0].silent.clear()
        wires[0].adapters.clear()  # it was started again
        for number in range(9, 200, 2):
            if wires[0].asked:
                break
            asyncio.run(asyncio.sleep(0.05))
            ask(engine, adapter(number), adapter(number + 1))
        assert wires[0].asked
    finally:
        engine.close()


def test_a_server_that_has_lost_its_adapters_is_given_them_again(engine, wires):
    ask(engine, adapter(1))
    for wire in wires:
        wire.adapters.clear()
    assert ask(engine, adapter(1))[0].token_ids == (5,)
    before = sum(len(wire.asked) for wire in wires)
    assert ask(engine, adapter(1))[0].token_ids == (5,)
    assert sum(len(wire.asked) for wire in wires) == before + 1


def test_no_server_left_is_an_error_that_names_them(wires, tmp_path):
    engine = patient(wires, tmp_path, 0.2)
    try:
        for wire in wires:
            wire.silent.set()
        with pytest.raises(LostEngine, match="None of http://127"):
            ask(engine, adapter(1))
    finally:
        engine.close()


def test_what_a_server_refuses_is_not_asked_again(engine, wires):
    for wire in wires:
        wire.behave = lambda wire, body: (400, {"error": {"message": "too long a prompt"}})
    with pytest.raises(ServerError, match=r"status 400.*too long a prompt"):
        ask(engine, adapter(1))
    assert sum(len(wire.asked) for wire in wires) == 1


def test_wrong_answers_are_asked_of_another_and_in_the_end_are_an_error(engine, wires):
    wires[0].behave = lambda wire, body: (200, b"<html>")
    assert [one.token_ids for one in ask(engine, *map(adapter, range(1, 5)))] == [(5,)] * 4
    wires[1].behave = wires[0].behave
    with pytest.raises(ServerError, match=r"3 servers failed.*no completion with token ids"):
        ask(engine, adapter(9))


def changed(**changes):
    data = completion()
    choice = data["choices"][0]
    for name, value in changes.items():
        place = choice if name in choice else choice["logprobs"]
        if value is None:
            del place[name]
        else:
            place[name] = value
    return json.dumps(data).encode()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"[]",
        b'{"choices": []}',
        changed(token_ids=None),
        changed(token_ids=[]),
        changed(token_ids=[4]),
        changed(token_ids=[5, 5]),
        changed(token_ids=[True]),
        changed(tokens=["token_id:3"]),
        changed(tokens=["bet"]),
        changed(token_logprobs=[float("nan")]),
        changed(token_logprobs=[0.5]),
        changed(token_logprobs=[None]),
        changed(token_logprobs=[]),
        changed(top_logprobs=[{"token_id:5": -0.1}]),
        changed(logprobs=None),
    ],
)
def test_an_answer_that_is_not_as_asked_is_refused(answer):
    read_completion(changed(), ALLOWED, "it")
    with pytest.raises(RetryableError, match="it sent what is no completion"):
        read_completion(answer, ALLOWED, "it")


def test_a_token_that_cannot_come_has_the_log_prob_minus_infinity():
    answer = json.dumps(completion((5,), {3: -9999.0, 5: 0.0})).encode()
    assert read_completion(answer, ALLOWED, "it").logprobs[0][3].logprob == -math.inf


def test_a_server_that_is_not_there_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(vllm_servers, "LOOK", 0.02)
    pool = ServerPool(urls=("http://127.0.0.1:9",), timeout=0.1)
    with pytest.raises(ServerError, match=r"127.0.0.1:9 does not answer. Start vLLM there"):
        VllmServers("model", VllmShape(True), tmp_path / "log", pool)
