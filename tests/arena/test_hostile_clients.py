"""Clients that mean harm, and their like: what our two servers refuse, and what they outlive, within bounds."""

import json
import random
import re
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager, suppress

import openai
import pytest
from support.matches.kuhn import kuhn_pocket
from support.processes.programs import programs
from support.source import ROOT

from arena.serving import web_pages, web_server
from arena.serving.chat_server import ChatServer
from arena.serving.completions import Completions, Prompt, Stopped
from arena.serving.requests import MAX_CHARACTERS, Served
from roles.truncation import NO_TRUNCATION

CHAT = [{"role": "user", "content": "Your card: J"}]


@pytest.fixture(scope="module")
def lm():
    return kuhn_pocket()


@contextmanager
def chat_server(lm, host="127.0.0.1", hosts=()):
    with Completions(lm, "main") as completions:
        served = Served("main", 0, 1.0, NO_TRUNCATION, 16)
        with ChatServer((host, 0), completions, served, hosts) as server:
            yield server


@pytest.fixture(scope="module")
def server(lm):
    with chat_server(lm) as server:
        yield server


def connected(server):
    return socket.create_connection(("127.0.0.1", server.port), timeout=20)


def all_of(connection):
    """Return what comes until the server closes the connection."""
    said = b""
    with connection:
        while piece := connection.recv(2**16):
            said += piece
    return said


def told(server, *lines, body=b""):
    """Send a request as it stands; return all that the server answers, until it closes."""
    connection = connected(server)
    connection.sendall("\r\n".join([*lines, "", ""]).encode() + body)
    return all_of(connection)


def statuses(said):
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", said)]


def sent_until_cut(connection, piece, most=2**26, pause=0.0):
    """Send a piece again and again; return how many bytes went, at most this many, before the server broke it off."""
    sent = 0
    with suppress(OSError):
        while sent < most:
            connection.sendall(piece)
            sent += len(piece)
            time.sleep(pause)
    return sent


def asks(server, **fields):
    """Return what a plain client is answered, which shows that the server continues."""
    with openai.OpenAI(base_url=server.url, api_key="none", max_retries=0, timeout=30) as client:
        return client.chat.completions.create(model="main", messages=CHAT, max_tokens=2, **fields)


def body(**fields):
    return json.dumps({"model": "main", "messages": CHAT, "max_tokens": 2} | fields).encode()


def post(content, *more, host="localhost", path="/v1/chat/completions", kind="application/json", length=None):
    length = f"Content-Length: {len(content) if length is None else length}"
    return [f"POST {path} HTTP/1.1", f"Host: {host}", length, f"Content-Type: {kind}", "Connection: close", *more]


@pytest.fixture(params=["serve", "serve-seats"])
def either(request, lm, server):
    """Both servers: what they share holds for each."""
    if request.param == "serve":
        yield server
    else:
        with programs(lm, number=1) as run:
            yield run.server


GET = "GET /v1/models HTTP/1.1"
CLOSE = "Connection: close"


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost@evil", "", "10.0.0.1"]
)
def test_a_name_that_is_not_ours_is_not_answered(either, host):
    """A page of evil.example whose name is made to point at 127.0.0.1 is of the same origin as its requests."""
    said = told(either, GET, f"Host: {host}", CLOSE)
    assert statuses(said) == [403]
    assert b"--allow-host" in said


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8000", "LOCALHOST:1", "[::1]:80", "localhost."])
def test_our_own_names_are_answered(either, host):
    assert statuses(told(either, GET, f"Host: {host}", CLOSE)) == [200]


def test_names_that_are_allowed_are_answered_and_everywhere_any_number_is(lm):
    with chat_server(lm, hosts=["gpu-1.lan"]) as server:
        assert statuses(told(server, GET, "Host: GPU-1.lan:80", CLOSE)) == [200]
        assert statuses(told(server, GET, "Host: 10.0.0.1", CLOSE)) == [403]
    with chat_server(lm, host="0.0.0.0") as server:
        assert statuses(told(server, GET, "Host: 10.0.0.1:80", CLOSE)) == [200]
        assert statuses(told(server, GET, "Host: evil.example", CLOSE)) == [403]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/seats/next", "/v1/seats/play"])
@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://localhost:3000", "http://localhost.evil.example"]
)
def test_another_sites_page_may_ask_nothing(either, path, origin):
    said = told(either, *post(b"{}", f"Origin: {origin}", path=path), body=b"{}")
    assert statuses(said) == [403]
    assert b"may not send requests here" in said


def test_a_page_of_this_very_server_may_ask(server):
    name = f"localhost:{server.port}"
    assert statuses(told(server, *post(body(), f"Origin: http://{name}", host=name), body=body())) == [200]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/seats/next", "/v1/seats/play"])
def test_what_an_html_form_can_send_changes_nothing(lm, kind, path):
    with programs(lm, number=1) as run:
        seat = json.loads(told(run.server, *post(b"{}", path="/v1/seats/next"), body=b"{}").partition(b"\r\n\r\n")[2])
        said = told(run.server, *post(b"{}", f"Authorization: Bearer {seat['key']}", path=path, kind=kind), body=b"{}")
        assert statuses(said) == [415]


def test_a_get_takes_no_turn(lm):
    with programs(lm, number=1) as run:
        said = told(run.server, "GET /v1/seats/next?wait=0 HTTP/1.1", "Host: localhost", CLOSE)
        assert statuses(said) == [405]
        assert b"this page takes POST, with a JSON body" in said
        assert not run.board._taken


SMUGGLED = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize(
    ("lines", "content", "status"),
    [
        ([GET, "Host: localhost", f"Content-Length: {len(SMUGGLED)}"], SMUGGLED, 400),
        (
            [GET, "Host: localhost", "Transfer-Encoding: chunked"],
            b"%x\r\n%s\r\n0\r\n\r\n" % (len(SMUGGLED), SMUGGLED),
            400,
        ),
        (post(b"{}", "Content-Length: 50"), b"{}" + SMUGGLED, 400),
        (post(b"{}", "Transfer-Encoding: chunked"), b"0\r\n\r\n" + SMUGGLED, 400),
        (post(b"{}", "Transfer-Encoding: gzip, chunked"), b"0\r\n\r\n" + SMUGGLED, 400),
        (post(b"", length="9" * 5000), SMUGGLED, 400),
        (post(b"", length="9" * 19), SMUGGLED, 413),
        (post(b"", length="-1"), SMUGGLED, 400),
        (post(b"", length="+2"), SMUGGLED, 400),
        (post(b"", length="0x2"), SMUGGLED, 400),
        ([GET, "Host: localhost", "Host: evil.example"], b"", 400),
        ([GET], b"", 400),
        ([GET, "Host : localhost"], b"", 400),
        (["GET /v1/models HTTP/1.0"], b"", 403),
        (["GET http://evil.example/v1/models HTTP/1.1", "Host: localhost"], b"", 404),
        (["GET //evil.example/v1/models HTTP/1.1", "Host: localhost"], b"", 404),
        (["OPTIONS * HTTP/1.1", "Host: localhost", CLOSE], b"", 404),
        (["CONNECT localhost:80 HTTP/1.1", "Host: localhost", CLOSE], b"", 404),
        ([GET, "Host: localhost", *(f"X-{i}: {'x' * 100}" for i in range(1000))], b"", 431),
        ([f"GET /{'x' * 100_000} HTTP/1.1", "Host: localhost"], b"", 431),
        ([f"GET /v1/models/{'x' * 5000} HTTP/1.1", "Host: localhost", CLOSE], b"", 404),
        (["nonsense"], b"", 400),
        (["\x16\x03\x01"], b"", 400),
    ],
)
def test_what_is_unclear_is_refused_once_in_openais_form_and_the_connection_closed(server, lines, content, status):
    said = told(server, *lines, body=content)
    assert statuses(said) == [status]
    head, _, answer = said.partition(b"\r\n\r\n")
    assert b"content-type: application/json" in head.lower()
    assert set(json.loads(answer)["error"]) == {"message", "type", "param", "code"}
    assert len(answer) < 4000


def test_two_ways_to_tell_a_length_are_refused(server):
    content = body()
    chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(content), content)
    said = told(server, *post(content, "Transfer-Encoding: chunked"), body=chunks)
    assert statuses(said) == [400]
    assert b"not both" in said


def test_http_1_0_with_a_host_is_answered(server):
    assert b"200 OK" in told(server, "GET /v1/models HTTP/1.0", "Host: localhost")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (body(messages=[{"role": "user", "content": "\ud800"}]), "half a surrogate pair"),
        (body(structured_outputs={"choice": ["a", "\udfff"]}), "half a surrogate pair"),
        (body(model="\ud800"), "half a surrogate pair"),
        (b'{"model": "\xed\xa0\x80"}', "not UTF-8"),
        (body().decode().encode("utf-16"), "not UTF-8"),
        (b'{"seed": ' + b"9" * 5000 + b"}", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (json.dumps({f"key{i}": 1 for i in range(100_000)}).encode(), "100,000 keys; the limit is 100"),
        (body(messages=[[]] * 100_000), "more than 50,000 values"),
        (body(messages=[{"role": "user", "content": "x" * (MAX_CHARACTERS + 1)}]), "characters; the limit is"),
        (body(model="x" * 1_000_000), "There is no model 'xxx"),
        (body(n="x" * 1_000_000), "n = 'xxx"),
        (body(structured_outputs={"choice": ["x" * 2000, "y" * 2000]}), "but the model reads 1024"),
        (body(structured_outputs={"choice": [f"{i:0>1000}" for i in range(10_000)]}), "10,000,000 characters in total"),
        (body(n=128, max_tokens=1000, logprobs=True, top_logprobs=20), "Ask for fewer"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_body_that_costs_too_much_is_refused_soon(server, content, sentence):
    begun = time.monotonic()
    status, answer = 400, told(server, *post(content), body=content)
    assert statuses(answer) == [404 if "model" in sentence and "There is" in sentence else status]
    assert sentence in json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["message"]
    assert len(answer) < 16_000
    assert time.monotonic() - begun < 60  # one that is not refused takes minutes


def test_a_program_cannot_have_a_long_chat_tokenised(lm):
    with programs(lm, number=1) as run:
        client = run.client.with_options(
            api_key=run.client.post("/seats/next", body={}, cast_to=dict[str, object])["key"]
        )
        encoded, encode = [], lm._encode
        lm._encode = lambda text: (encoded.append(len(text)), encode(text))[1]
        try:
            with pytest.raises(openai.BadRequestError, match="15,000,000 characters; the limit is"):
                client.chat.completions.create(model="main", messages=[{"role": "user", "content": "x" * 15_000_000}])
        finally:
            del lm._encode
        assert sum(encoded) == 0


WIDE = """
import resource, sys
from support.matches.kuhn import kuhn_pocket
from arena.serving.chat_server import ChatServer
from arena.serving.completions import Completions
from arena.serving.requests import Served
from roles.truncation import NO_TRUNCATION
from support.memory import most_resident
import openai

lm = kuhn_pocket()
resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
with Completions(lm, "main") as completions:
    with ChatServer(("127.0.0.1", 0), completions, Served("main", 0, 1.0, NO_TRUNCATION, 16)) as server:
        client = openai.OpenAI(base_url=server.url, api_key="none", max_retries=0, timeout=100)
        chat = [{"role": "user", "content": "Your card: J " * 20}]
        begun = most_resident()
        numbers = [str(i) for i in range(10_000)]
        for choice in ([f"{i:0>1000}" for i in numbers], numbers, ["x" * 200 + i for i in numbers[:900]]):
            try:
                answer = client.chat.completions.create(
                    model="main", messages=chat, n=4, extra_body={"structured_outputs": {"choice": choice}}
                )
                print(answer.choices[0].message.content in choice)
            except openai.BadRequestError as error:
                print(error.status_code)
        print((most_resident() - begun) >> 20)
"""


@pytest.mark.thorough
def test_many_long_choices_take_bounded_memory():
    """10,000 choices of 1,000 characters took 21 GB; what is answered takes less than 600 MB."""
    ended = subprocess.run(
        [sys.executable, "-c", WIDE],
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}", "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    *said, megabytes = ended.stdout.split()
    assert said == ["400", "True", "True"]
    assert int(megabytes) < 600


def test_a_choice_in_many_passes_has_the_distribution_of_one(lm):
    """A trie that is cut into passes behind the chat, and the same in one pass."""
    ids = lm.encode_prompt(CHAT)
    trie = lm.new_trie([f"card {i} of {i % 7}" for i in range(60)])
    completions = Completions(lm, "main")
    prompt = Prompt(ids, trie, 1.0, NO_TRUNCATION, 1, 5, 3)
    with pytest.MonkeyPatch.context() as patch:
        [whole] = completions.complete([prompt])
        patch.setattr("arena.serving.completions.MAX_BATCH", 7)
        [cut] = completions.complete([prompt])
    assert cut.text == whole.text
    assert [score.token for score in cut.scores] == [score.token for score in whole.scores]
    assert [score.logprob for score in cut.scores] == pytest.approx([one.logprob for one in whole.scores], abs=1e-4)


def test_long_replies_side_by_side_hold_bounded_keys_and_values(lm, monkeypatch):
    """Those of 128 replies of 8,000 tokens of a small real model would take 48 GB."""
    completions, together = Completions(lm, "main"), []
    decode = completions._decode_together
    completions._decode_together = lambda prompts, stopped: (together.append(len(prompts)), decode(prompts, stopped))[1]
    ids = lm.encode_prompt(CHAT)
    prompts = [Prompt(ids, None, 1.0, NO_TRUNCATION, 6, f"5/{place}", 1) for place in range(10)]
    whole = completions.complete(prompts)
    monkeypatch.setattr("arena.serving.completions.MAX_CACHED_TOKENS", 3 * (len(ids) + 6))
    monkeypatch.setattr("arena.serving.completions.SCORED", 2)
    cut = completions.complete(prompts)
    assert together == [10, 3, 3, 3, 1]
    assert [one.ids for one in cut] == [one.ids for one in whole]
    for one, other in zip(cut, whole, strict=True):
        assert [s.logprob for s in one.scores] == pytest.approx([s.logprob for s in other.scores], abs=1e-4)


class Slow:
    """Counts the passes of a model, each of which takes a while; all of them are its modules'."""

    def __init__(self, lm, seconds):
        self.lm, self.seconds, self.passes = lm, seconds, 0

    def __enter__(self):
        self.forward, self.lm.forward = self.lm.forward, self._forward
        self.plain, self.lm.plain = self.lm.plain, None
        return self

    def __exit__(self, *_):
        del self.lm.forward
        self.lm.plain = self.plain

    def _forward(self, **inputs):
        self.passes += 1
        time.sleep(self.seconds)
        return self.forward(**inputs)


def test_who_has_gone_is_not_computed_for(server, lm):
    """40 clients that asked for 128 long replies each and left: the next one does not wait for them."""
    content = body(n=128, max_tokens=500)
    with Slow(lm, 0.02) as slow, ExitStack() as stack:
        for _ in range(40):
            gone = stack.enter_context(connected(server))
            gone.sendall("\r\n".join([*post(content), "", ""]).encode() + content)
        until = time.monotonic() + 20
        while not slow.passes:
            assert time.monotonic() < until
            time.sleep(0.01)
        stack.close()
        assert asks(server).choices
        assert slow.passes < 300  # of 20,000, which 40 answers take


def test_a_batch_that_nobody_waits_for_ends_at_its_next_step(lm):
    completions = Completions(lm, "main")
    prompt, steps = Prompt(lm.encode_prompt(CHAT), None, 5.0, NO_TRUNCATION, 500, 5, None), []

    def stopped():
        steps.append(1)
        return len(steps) > 3

    with Slow(lm, 0.0) as slow, pytest.raises(Stopped):
        completions.complete([prompt], stopped)
    assert slow.passes <= 6
    future = completions.submit(prompt)
    assert future.cancel()
    assert future.given_up


def test_the_server_stops_in_the_middle_of_replies(lm):
    content = body(n=128, max_tokens=900, temperature=5)
    with Slow(lm, 0.05) as slow, ExitStack() as stack:
        with chat_server(lm) as server:
            for _ in range(8):
                stack.enter_context(connected(server)).sendall("\r\n".join([*post(content), "", ""]).encode() + content)
            until = time.monotonic() + 20
            while slow.passes < 3:
                assert time.monotonic() < until
                time.sleep(0.01)
            begun = time.monotonic()
        assert slow.passes < 300  # of 900, which the replies take
        assert time.monotonic() - begun < 20


def test_slow_heads_and_bodies_are_cut_off(lm, monkeypatch):
    monkeypatch.setattr(web_server, "HEAD_SECONDS", 0.3)
    monkeypatch.setattr(web_pages, "BODY_SECONDS", 0.3)
    with chat_server(lm) as server:
        for begun in (b"", b"GET /v1/mod", b"GET /v1/models HTTP/1.1\r\nHost: loc"):
            connection = connected(server)
            connection.sendall(begun)
            started = time.monotonic()
            with suppress(ConnectionResetError):
                assert all_of(connection) == b""
            assert time.monotonic() - started < 20
        content = body()
        connection = connected(server)
        connection.sendall("\r\n".join([*post(content), "", ""]).encode() + content[:-1])
        assert statuses(all_of(connection)) == [408]


def one_answer(connection):
    """Return an answer whose JSON ends with its list."""
    said = b""
    while not said.endswith(b"]}") and (piece := connection.recv(2**16)):
        said += piece
    return said


def test_a_head_that_trickles_is_cut_off_after_an_answer_too(lm, monkeypatch):
    monkeypatch.setattr(web_server, "HEAD_SECONDS", 0.3)
    with chat_server(lm) as server, connected(server) as connection:
        connection.sendall(SMUGGLED)
        assert statuses(one_answer(connection)) == [200]
        time.sleep(0.5)  # between requests there is more time
        connection.sendall(SMUGGLED)
        assert statuses(one_answer(connection)) == [200]
        assert sent_until_cut(connection, b"G", 100, pause=0.05) < 50


def test_a_head_without_end_is_cut_off(server):
    with connected(server) as connection:
        connection.sendall(f"{GET}\r\nHost: localhost\r\n".encode())
        assert sent_until_cut(connection, b"X: " + b"x" * 2**16) < 2**23


def test_chunks_without_end_are_cut_off_at_the_most_that_is_read(server, monkeypatch):
    monkeypatch.setattr(web_pages, "MAX_BODY", 2**18)
    lines = [line for line in post(b"") if not line.startswith("Content-Length")]
    with connected(server) as connection:
        connection.sendall("\r\n".join([*lines, "Transfer-Encoding: chunked", "", ""]).encode())
        assert sent_until_cut(connection, b"10000\r\n" + b" " * 2**16 + b"\r\n") < 2**24
    assert asks(server).choices


def test_all_bodies_together_are_bounded(lm, monkeypatch):
    monkeypatch.setattr(web_pages, "MAX_BODIES", 2**20)
    monkeypatch.setattr(web_pages, "BODY_SECONDS", 3.0)
    with chat_server(lm) as server, ExitStack() as stack:
        found = []
        for _ in range(4):
            one = stack.enter_context(connected(server))
            one.sendall("\r\n".join([*post(b"", length=2**20), "", ""]).encode() + b" " * 2**19)
            found.append(one)
        answers = [connection.recv(2**16) for connection in found]
        assert any(statuses(answer) == [503] for answer in answers)
        assert asks(server).choices


def test_more_connections_than_there_may_be_are_refused_and_room_comes_back(lm, monkeypatch):
    monkeypatch.setattr(web_server, "MOST_CONNECTIONS", 8)
    with chat_server(lm) as server:
        with ExitStack() as stack:
            for _ in range(8):
                stack.enter_context(connected(server))
            said = all_of(connected(server))
            assert statuses(said) == [503]
            assert b"try again later" in said
        time.sleep(0.3)
        assert asks(server).choices


def test_requests_before_the_answer_are_not_hoarded(server, lm):
    content = body(n=8, max_tokens=400, temperature=5)
    with Slow(lm, 0.02), connected(server) as connection:
        connection.sendall("\r\n".join([line for line in post(content) if line != CLOSE] + ["", ""]).encode() + content)
        assert sent_until_cut(connection, SMUGGLED * 1000) < 2**24
    assert asks(server).choices


def test_two_requests_in_one_packet_are_answered_in_order(server):
    said = told(server, GET, "Host: localhost", body=f"{GET}\r\nHost: localhost\r\n{CLOSE}\r\n\r\n".encode())
    assert statuses(said) == [200, 200]


def test_an_answer_that_is_not_read_does_not_stay(lm, monkeypatch):
    monkeypatch.setattr(web_server, "READ_SECONDS", 0.3)
    content = body(n=128, max_tokens=90, logprobs=True, top_logprobs=20, temperature=5)
    with chat_server(lm) as server, connected(server) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall("\r\n".join([*post(content), "", ""]).encode() + content)
        until = time.monotonic() + 60
        while not server._server.server_state.connections:
            time.sleep(0.01)
        while server._server.server_state.connections:
            assert time.monotonic() < until
            time.sleep(0.05)


def test_noise_harms_nobody(either):
    """A hundred connections of random bytes, some of them in the middle of a request."""
    noise = random.Random(0)
    for number in range(100):
        with connected(either) as connection:
            begin = "\r\n".join(post(b"", length=50)[: number % 6]).encode() if number % 2 else b""
            connection.sendall(begin + noise.randbytes(noise.randrange(1, 300)))
    assert statuses(told(either, GET, "Host: localhost", CLOSE)) == [200]


def test_nothing_of_it_stays(server):
    """Requests and threads that the server has after all this."""
    time.sleep(0.5)
    assert len(server._server.server_state.tasks) == 0
    assert len([thread for thread in threading.enumerate() if thread.name == "http"]) == 1
