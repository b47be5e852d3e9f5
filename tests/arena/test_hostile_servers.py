"""Whatever a server answers, a match continues by its role's conduct or stops with a sentence; memory stays bounded."""

import gzip
import json
import random
import time
import tracemalloc
import zlib
from contextlib import closing

import pytest
from support.matches.kuhn import kuhn_matches, roles_for
from support.processes.server import MODELS, Response, Server, completion, error

from arena.errors import EngineError, ServerError
from arena.records import EndReason, ReplyRequest
from arena.remote.settings import RemoteSettings
from arena.replays import load_episodes, save_episodes
from arena.samplers.openai_api import OpenAIApi
from arena.samplers.scripted import Random
from arena.scheduler import play
from games.registry import make_game

KEY = "sk-0123456789abcdef"
DEEP = "[" * 100_000 + "]" * 100_000
NESTED = "[" * 400 + "]" * 400  # not too deep to be read
MIB = 2**20


def message(content):
    return {"choices": [{"index": 0, "message": {"role": "assistant", "content": content}}]}


def with_usage(usage):
    """Return a legal reply with text for its usage, which need not be JSON."""
    body = json.dumps(message("[bet]"))[:-1]
    return Response(data=f'{body}, "usage": {usage}}}'.encode())


def with_headers(**headers):
    return completion("[bet]")._replace(headers=headers)


def raw(text):
    return Response(data=text.encode("latin-1"), bare=True)


def bomb():
    """Return 0.3 MB of gzip that are 300 MB of blanks."""
    pack = zlib.compressobj(1, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    return b"".join(pack.compress(b" " * MIB) for _ in range(300)) + pack.flush()


def flood():
    return Response(data=(b"x" * MIB for _ in range(3000)))


UNUSABLE = {
    "nothing": Response(data=b""),
    "a page": Response(data=b"<html>bad gateway</html>"),
    "null": Response(data=None),
    "a number": Response(data=7),
    "a list": Response(data=[message("[bet]")]),
    "an empty object": Response(data={}),
    "no choices": Response(data={"choices": []}),
    "choices that are an object": Response(data={"choices": {"0": {}}}),
    "a choice that is null": Response(data={"choices": [None]}),
    "a message that is text": Response(data={"choices": [{"message": "[bet]"}]}),
    "an error in a 200": Response(data={"error": {"message": "upstream failed"}}),
    "an error that is nested": Response(data=f'{{"error": {DEEP}}}'.encode()),
    "content that is a number": Response(data=message(5)),
    "content that is true": Response(data=message(True)),
    "content that is a list": Response(data=message([{"type": "text", "text": "[bet]"}])),
    "100,000 brackets": Response(data=DEEP.encode()),
    "100,000 brackets within": Response(data=json.dumps(message("[bet]")).replace('"[bet]"', DEEP).encode()),
    "100,000 objects": Response(data=('{"a":' * 100_000 + "1" + "}" * 100_000).encode()),
    "a number of 10,000 digits": Response(data=b'{"choices": ' + b"9" * 10_000 + b"}"),
    "what is no UTF-8": Response(data=b"\xff\xfe\x00\x01"),
    "UTF-16": Response(data=json.dumps(message("[bet]")).encode("utf-16")),
    "two values": Response(data=json.dumps(message("[bet]")).encode() * 2),
    "10 MB of reply": completion("[bet]" + "x" * 10**7),
    "a reply of 100,001 characters": completion("[bet]" + "x" * 99_996),
    "10 MB of blanks": Response(data=b" " * 10**7 + json.dumps(message("[bet]")).encode()),
    "what it calls br": with_headers(Content_Encoding="br")._replace(data=b"\x0b\x02\x80"),
    "gzip that is cut": Response(data=gzip.compress(b"x" * 1000)[:20], headers={"Content-Encoding": "gzip"}),
    "deflate that is none": with_headers(Content_Encoding="deflate")._replace(data=b"\x00\x01\x02"),
    "ten thousand headers": raw("HTTP/1.1 200 OK\r\n" + "X: y\r\n" * 10_000 + "\r\n"),
    "an illegal reply": completion("[fold]"),
    "half a letter": completion("\ud800"),
    "half a letter in an answer": completion("[\udfff]"),
    "a null character": completion("\0"),
    "codes of a terminal": completion("\x1b[2J\x1b]0;mine\x07"),
    "a reply of brackets": completion(DEEP[:90_000]),
    "a refusal": Response(data=message(None)),
}
STOPS = {
    "a cut answer": completion("[bet]")._replace(cut=True),
    "gzip that is none": with_headers(Content_Encoding="gzip"),
    "six encodings": with_headers(Content_Encoding="gzip, gzip, gzip, gzip, gzip, gzip"),
    "no status": raw("hello\r\n\r\n"),
    "nothing at all": raw(""),
    "half of a status": raw("HTTP/1."),
    "an endless header": raw("HTTP/1.1 200 OK\r\nX: " + "x" * MIB),
    "a length that is a word": raw("HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\nhello"),
    "a length below zero": raw("HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello"),
    "two lengths": raw("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"),
    "a chunk of no size": raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n"),
    "endless news": raw("HTTP/1.1 100 Continue\r\n\r\n" * 20_000),
    "another protocol": raw("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
    "another place": Response(302, headers={"Location": "http://127.0.0.1:9/v1"}),
    "no place": Response(302, headers={"Location": "http://[::1/"}),
    "nothing new": raw("HTTP/1.1 304 Not Modified\r\n\r\n"),
    "no content": raw("HTTP/1.1 204 No Content\r\n\r\n"),
    "an unknown status": Response(799, {"error": "odd"}),
    "400 with 100,000 brackets": Response(400, DEEP.encode()),
    "500 with 100,000 brackets": Response(500, DEEP.encode()),
    "400 with brackets as its message": Response(400, f'{{"error": {{"message": {NESTED}}}}}'.encode()),
    "400 with 10 MB": Response(400, {"error": {"message": "x" * 10**7}}),
    "400 with half a letter": error(400, "\ud800"),
    "400 with codes of a terminal": error(400, "\x1b[2J"),
    "500 with a zip for letters": error(500, "no", Content_Type="text/html; charset=zip"),
    "letters of no name": with_headers(Content_Type="application/json; charset=\0"),
    "429 until the year 10,000": error(429, "no", Retry_After="Mon, 01 Jan 99999999999 00:00:00 GMT"),
    "429 with a long number": error(429, "no", Retry_After="9" * 400),
    "429 with a number as its code": error(429, "no", code=[[]]),
}
PLAYED = {
    "letters that are a zip": with_headers(Content_Type="application/json; charset=zip"),
    "letters of another name": with_headers(Content_Type="application/json; charset=utf-16"),
    "a mark of byte order": Response(data=b"\xef\xbb\xbf" + json.dumps(message("[bet]")).encode()),
    "gzip": Response(data=gzip.compress(json.dumps(message("[bet]")).encode()), headers={"Content-Encoding": "gzip"}),
    "a cookie of any letters": with_headers(Set_Cookie="a=\xe9\xff; Domain=\xfc"),
    "a thousand cookies": with_headers(Set_Cookie="a=" + "x" * 4000),
    "a whole letter of two halves": completion("\ud83d\ude00 [bet]"),
    **{
        f"a count that is {usage}": with_usage(f'{{"prompt_tokens": {usage}, "completion_tokens": {usage}}}')
        for usage in ('"5"', "-1", "1.5", "NaN", "1e400", "1" + "0" * 300, "true", "[]", "null", NESTED)
    },
    **{f"a usage that is {usage}": with_usage(usage) for usage in ("[]", '"x"', "0", "null")},
}  # fmt: skip


def request_of(**role):
    game = make_game("kuhn_poker")
    game.reset(0)
    roles = roles_for(**role)
    return ReplyRequest("a", roles[0], game, game.observe(0), game.legal_actions(), (), random.Random(0))


def played(answer, tmp_path, **settings):
    """Play two matches against a server that answers so always; return their episodes, which can be saved and read."""
    roles = roles_for(reply="free", on_illegal="retry", retries=1)
    settings = {"retries": 0, "timeout": 20.0, "tokens_per_minute": 10**6, **settings}
    with (
        Server(lambda number, body: answer() if callable(answer) else answer) as server,
        closing(OpenAIApi(RemoteSettings(model=MODELS[0], url=server.url, **settings))) as engine,
    ):
        episodes = play(
            kuhn_matches(2),
            roles_of=lambda _: roles,
            engine_of=lambda player: engine if player == "a" else Random(),
            make_game=make_game,
        )
        usage = engine.usage()
    save_episodes(tmp_path / "episodes.jsonl", episodes)
    assert load_episodes(tmp_path / "episodes.jsonl") == episodes
    return episodes, usage


@pytest.mark.parametrize("trouble", UNUSABLE)
def test_an_answer_that_cannot_be_used_is_an_illegal_reply(trouble, tmp_path):
    episodes, _ = played(UNUSABLE[trouble], tmp_path)
    assert {episode.end for episode in episodes} == {EndReason.FORFEIT}
    remote = [turn for turn in episodes[0].turns if turn.player == "a"]
    assert [turn.action for turn in remote] == [None, None]  # it may retry once
    assert all(len(turn.reply) <= 100_000 for turn in remote)


def test_an_answer_that_does_not_come_is_an_illegal_reply_where_set_so(tmp_path):
    def answer():
        time.sleep(0.3)
        return completion("x")

    episodes, usage = played(answer, tmp_path, timeout=0.05, late="empty")
    assert {episode.end for episode in episodes} == {EndReason.FORFEIT}
    assert all(turn.reply == "" for episode in episodes for turn in episode.turns if turn.player == "a")
    assert usage.unusable == 4  # two matches, each retried once by the role
    with pytest.raises(EngineError, match=r"no answer within 0\.05 seconds"):
        played(answer, tmp_path, timeout=0.05)


@pytest.mark.parametrize("trouble", STOPS)
def test_a_server_that_gives_no_answer_stops_play_with_a_sentence(trouble, tmp_path):
    with pytest.raises(EngineError) as caught:
        played(STOPS[trouble], tmp_path)
    assert isinstance(caught.value.__cause__, ServerError)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("oddity", PLAYED)
def test_an_odd_answer_with_a_legal_reply_is_played(oddity, tmp_path):
    episodes, usage = played(PLAYED[oddity], tmp_path)
    assert {episode.end for episode in episodes} == {EndReason.FINISHED}
    assert (usage.unusable, usage.input_tokens >= 0) == (0, True)


def test_an_answer_that_cannot_be_used_is_asked_for_again_and_counted(tmp_path):
    _, usage = played(completion("x" * 200_000), tmp_path, retries=1)
    assert (usage.requests, usage.retries, usage.unusable) == (8, 4, 4)  # two matches with two turns each
    answers = iter([Response(data=DEEP.encode()), completion("[bet]")])
    with (
        Server(lambda number, body: next(answers)) as server,
        closing(OpenAIApi(RemoteSettings(model=MODELS[0], url=server.url))) as engine,
    ):
        [reply] = engine.sample([request_of(reply="free", on_illegal="retry")])
    assert reply.text == "[bet]"


def test_a_masked_role_has_no_rule_for_an_illegal_reply_so_play_stops():
    with (
        Server(lambda number, body: Response(data=DEEP.encode())) as server,
        closing(OpenAIApi(RemoteSettings(model=MODELS[0], url=server.url, choice="json_schema", retries=0))) as engine,
        pytest.raises(EngineError, match="not a chat completion"),
    ):
        engine.sample([request_of(reply="choice")])


@pytest.mark.parametrize(("length", "usable"), [(150_000, True), (150_001, False)])
def test_the_longest_reply_is_a_setting(length, usable, tmp_path):
    answer = completion("[bet]" + "\U0001f600" * (length - 5))  # letters of twelve bytes each
    _, usage = played(answer, tmp_path, max_reply_characters=150_000)
    assert (usage.unusable == 0) == usable


@pytest.mark.parametrize(
    "answer_of",
    [lambda: Response(data=bomb(), headers={"Content-Encoding": "gzip"}), lambda: flood],
    ids=["gzip", "chunks"],
)
def test_memory_stays_bounded_whatever_a_server_sends(answer_of, tmp_path):
    answer = answer_of()
    tracemalloc.start()
    try:
        episodes, _ = played(answer, tmp_path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert {episode.end for episode in episodes} == {EndReason.FORFEIT}
    assert peak < 64 * MIB
