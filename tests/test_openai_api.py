"""The engine for OpenAI-compatible servers, against a real one on localhost: it is the wire that is tested."""

import os
import random
import signal
import socket
import threading
import time
from contextlib import closing, contextmanager

import pytest
from small_play import kuhn_matches, roles_for
from small_server import MODELS, READ, WRITTEN, Answer, Server, completion, error

from arena.errors import EngineError
from arena.records import ReplyRequest
from arena.remote.settings import RemoteSettings
from arena.samplers.openai_api import OpenAIApi
from arena.samplers.scripted import Random
from arena.scheduler import play
from games.errors import UsageError
from games.registry import make_game

FREE = {"reply": "free", "on_illegal": "retry"}


@contextmanager
def engine(server, **settings):
    with closing(OpenAIApi(RemoteSettings(model=MODELS[0], url=server.url, **settings))) as opened:
        yield opened


def asked(seed=0, **role):
    game = make_game("kuhn_poker")
    game.reset(0)
    cards = roles_for(**(role or FREE))[0]
    return ReplyRequest("a", cards, game, game.observe(0), game.legal_actions(), (), random.Random(seed))


def run(opened, matches=20, in_flight=20, **role):
    others = Random()
    return play(
        kuhn_matches(matches),
        roles_of=lambda _: roles_for(**(role or FREE)),
        engine_of=lambda player: opened if player == "a" else others,
        make_game=make_game,
        in_flight=in_flight,
    )


def test_what_the_model_says_is_played_and_all_is_counted():
    with Server() as server, engine(server, input_price=2.0, output_price=8.0) as opened:
        episodes = run(opened)
        usage = opened.usage()
    own = [turn for episode in episodes for turn in episode.turns if turn.player == "a"]
    assert {(turn.reply, turn.action) for turn in own} == {("[bet]", "bet")}
    assert len(server.seen) == len(own) == usage.requests
    assert (usage.retries, usage.input_tokens, usage.output_tokens) == (0, READ * len(own), WRITTEN * len(own))
    assert usage.cost == pytest.approx(len(own) * (READ * 2.0 + WRITTEN * 8.0) / 1e6)


def test_an_illegal_reply_is_refused_and_the_model_is_told_why():
    def behave(number, body):
        return completion("no idea" if len(body["messages"]) == 2 else "[pass]")

    with Server(behave) as server, engine(server) as opened:
        episodes = run(opened, matches=1)
    own = [turn for turn in episodes[0].turns if turn.player == "a"]
    assert [turn.action for turn in own][:2] == [None, "pass"]
    said = server.seen[1].body["messages"]
    assert [one["role"] for one in said] == ["system", "user", "assistant", "user"]
    assert said[2]["content"] == "no idea"
    assert "Your reply has no answer in the form [action]." in said[3]["content"]


@pytest.mark.parametrize("most", [1, 5])
def test_never_more_requests_under_way_than_allowed_and_as_many_as_that(most):
    def behave(number, body):
        server.silence(0.02)
        return completion("[bet]")

    with Server(behave) as server, engine(server, concurrency=most) as opened:
        run(opened, matches=20)
    assert server.most_at_once == most


TROUBLES = {
    "500": lambda server: error(500, "oops"),
    "503": lambda server: error(503, "starting"),
    "529": lambda server: error(529, "overloaded"),
    "429": lambda server: error(429, "slow down"),
    "408": lambda server: error(408, "timeout"),
    "html": lambda server: Answer(data=b"<html>bad gateway</html>"),
    "error in a 200": lambda server: Answer(data={"error": {"message": "upstream failed"}}),
    "a cut answer": lambda server: completion("[pass]")._replace(cut=True),
    "an answer that does not come": lambda server: server.silence(3.0) or completion("[pass]"),
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_what_may_pass_is_asked_again(trouble):
    with (
        Server(lambda number, body: completion("[bet]") if number else TROUBLES[trouble](server)) as server,
        engine(server, timeout=1.0) as opened,
    ):
        [reply] = opened.sample([asked()])
        usage = opened.usage()
    assert reply.text == "[bet]"
    assert (usage.requests, usage.retries) == (2, 1)
    assert server.seen[0].body == server.seen[1].body


def test_a_server_says_how_long_to_wait():
    with Server(lambda number, body: completion("[bet]") if number else error(429, "wait", Retry_After=2)) as server:
        with engine(server) as opened:
            opened.sample([asked()])
        assert server.seen[1].at - server.seen[0].at >= 2.0
        server.behave = lambda number, body: error(429, "wait", Retry_After=3600)
        with engine(server) as opened, pytest.raises(EngineError, match="asks to wait 3600 seconds"):
            opened.sample([asked()])


def test_tries_are_counted_and_end():
    with Server(lambda number, body: error(502, "bad gateway")) as server, engine(server, retries=2) as opened:
        with pytest.raises(EngineError, match=r"it answered 502 \(bad gateway\), at the last of 3 attempts"):
            opened.sample([asked()])
        assert opened.usage()[:2] == (3, 2)
    assert len(server.seen) == 3


@pytest.mark.parametrize(
    ("status", "code", "advice"),
    [
        (400, None, "leave_out"),
        (401, None, "key_variable"),
        (404, None, "name of the model"),
        (429, "insufficient_quota", "nothing left to spend"),
    ],
)
def test_what_does_not_pass_is_asked_once_and_says_what_to_do(status, code, advice):
    with (
        Server(lambda number, body: error(status, "no", code)) as server,
        engine(server) as opened,
        pytest.raises(EngineError, match=rf"it answered {status} \(no\)\. .*{advice}"),
    ):
        opened.sample([asked()])
    assert len(server.seen) == 1


def test_a_failure_amid_matches_names_engine_and_player_and_ends_the_others():
    def behave(number, body):
        if number == 7:
            return error(400, "context too long")
        server.silence(60.0 if number > 7 else 0.0)
        return completion("[bet]")

    with Server(behave) as server, engine(server) as opened:
        started = time.monotonic()
        with pytest.raises(EngineError, match=r"engine OpenAIApi failed on a request for a: .*context too long"):
            run(opened)
        assert time.monotonic() - started < 30.0


def test_nobody_there_is_told_with_what_to_do():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
    settings = RemoteSettings(model="m", url=url, retries=1)
    with closing(OpenAIApi(settings)) as opened, pytest.raises(UsageError, match=r"connection failed.*it runs"):
        opened.probe()


def test_a_model_that_is_not_there_is_told_with_those_that_are():
    with Server(lambda number, body: error(404, "no such model")) as server:
        settings = RemoteSettings(model="pocket-larg", url=server.url)
        with closing(OpenAIApi(settings)) as opened, pytest.raises(UsageError, match="Did you mean pocket-large"):
            opened.probe()


def test_requests_keep_their_distance():
    with Server() as server, engine(server, requests_per_minute=600) as opened:
        started = time.monotonic()
        opened.sample([asked(seed) for seed in range(8)])
        assert server.seen[-1].at - started >= 0.7


def test_tokens_keep_their_distance_and_what_was_not_used_is_given_back():
    """Each request may take some 600 tokens, so 60,000 a minute would be one in 0.6 s; it is counted as 14."""
    with Server() as server, engine(server, tokens_per_minute=60_000, concurrency=1) as opened:
        started = time.monotonic()
        opened.sample([asked(seed) for seed in range(8)])
        assert 7 * (READ + WRITTEN) / 1000 <= server.seen[-1].at - started < 3.0
    with (
        Server(lambda number, body: completion("[bet]", usage=False)) as server,
        engine(server, tokens_per_minute=60_000, concurrency=1) as opened,
    ):
        started = time.monotonic()
        opened.sample([asked(seed) for seed in range(3)])
        assert server.seen[-1].at - started >= 2 * 0.5
        assert opened.usage().uncounted == 3
        assert opened.usage().cost is None


def test_a_seed_is_drawn_from_the_match_before_anything_is_sent():
    with Server() as server, engine(server, concurrency=1) as opened:
        opened.sample([asked(1), asked(1), asked(2)])
    seeds = [seen.body["seed"] for seen in server.seen]
    assert seeds[0] == seeds[1] != seeds[2]


def test_masked_choices_are_held_to_and_asked_again_if_they_are_not():
    said = iter(['{"action": "fold"}', '{"action": "bet"}'])
    with (
        Server(lambda number, body: completion(next(said))) as server,
        engine(server, choice="json_schema") as opened,
    ):
        [reply] = opened.sample([asked(reply="choice")])
    assert reply.text == "bet"
    schema = server.seen[0].body["response_format"]["json_schema"]["schema"]
    assert sorted(schema["properties"]["action"]["enum"]) == ["bet", "pass"]
    with Server(lambda number, body: completion("hm")) as server, engine(server, choice="structured_outputs") as opened:
        opened.settings = opened.settings.model_copy(update={"retries": 1})
        with pytest.raises(EngineError, match=r"'hm'.*bet.*choice = 'structured_outputs'"):
            opened.sample([asked(reply="choice")])
    with Server() as server, engine(server) as opened, pytest.raises(UsageError, match=r"roles\.on_illegal = 'retry'"):
        opened.sample([asked(reply="choice")])
    assert server.seen == []


def test_an_interruption_closes_every_connection_and_ends_the_thread():
    with Server(lambda number, body: server.silence() or completion("[bet]")) as server:
        serving = set(threading.enumerate())
        with engine(server, timeout=50.0) as opened:
            threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
            started = time.monotonic()
            with pytest.raises(KeyboardInterrupt):
                run(opened)
        assert time.monotonic() - started < 10.0
        assert server.seen
        left = [one.name for one in threading.enumerate() if one not in serving]
        assert [name for name in left if "process_request" not in name] == []  # those are the server's
