"""The engine for OpenAI-compatible servers, against a real HTTP server on localhost."""

import os
import random
import signal
import socket
import threading
import time
from contextlib import closing, contextmanager

import pytest
from support.matches.kuhn import kuhn_matches, roles_for
from support.processes.server import INPUT_TOKENS, MODELS, OUTPUT_TOKENS, Response, Server, completion, error

from arena.errors import EngineError
from arena.records import ReplyRequest
from arena.remote.rate_limit import RateLimit
from arena.remote.settings import RemoteSettings
from arena.samplers.openai_api import OpenAIApi
from arena.samplers.scripted import Random
from arena.scheduler import play
from games.common.errors import UsageError
from games.registry import make_game

FREE = {"reply": "free", "on_illegal": "retry"}


@contextmanager
def engine(server, **settings):
    with closing(OpenAIApi(RemoteSettings(model=MODELS[0], url=server.url, **settings))) as opened:
        yield opened


def request(seed=0, **role):
    game = make_game("kuhn_poker")
    game.reset(0)
    cards = roles_for(**(role or FREE))[0]
    return ReplyRequest("a", cards, game, game.observe(0), game.legal_actions(), (), random.Random(seed))


def run(opened, matches=20, in_flight=20, **role):
    opponent = Random()
    return play(
        kuhn_matches(matches),
        roles_of=lambda _: roles_for(**(role or FREE)),
        engine_of=lambda player: opened if player == "a" else opponent,
        make_game=make_game,
        in_flight=in_flight,
    )


def test_replies_are_played_and_usage_is_counted():
    with Server() as server, engine(server, input_price=2.0, output_price=8.0) as opened:
        episodes = run(opened)
        usage = opened.usage()
    remote_turns = [turn for episode in episodes for turn in episode.turns if turn.player == "a"]
    assert {(turn.reply, turn.action) for turn in remote_turns} == {("[bet]", "bet")}
    assert len(server.seen) == len(remote_turns) == usage.requests
    assert (usage.retries, usage.input_tokens, usage.output_tokens) == (
        0,
        INPUT_TOKENS * len(remote_turns),
        OUTPUT_TOKENS * len(remote_turns),
    )
    assert usage.cost == pytest.approx(len(remote_turns) * (INPUT_TOKENS * 2.0 + OUTPUT_TOKENS * 8.0) / 1e6)


def test_an_illegal_reply_is_refused_with_the_reason():
    def behave(number, body):
        return completion("no idea" if len(body["messages"]) == 2 else "[pass]")

    with Server(behave) as server, engine(server) as opened:
        episodes = run(opened, matches=1)
    remote_turns = [turn for turn in episodes[0].turns if turn.player == "a"]
    assert [turn.action for turn in remote_turns][:2] == [None, "pass"]
    chat = server.seen[1].body["messages"]
    assert [message["role"] for message in chat] == ["system", "user", "assistant", "user"]
    assert chat[2]["content"] == "no idea"
    assert "Your reply has no answer in the form [action]." in chat[3]["content"]


@pytest.mark.parametrize("most", [1, 5])
def test_concurrency_reaches_its_limit_and_no_more(most):
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
    "html": lambda server: Response(data=b"<html>bad gateway</html>"),
    "error in a 200": lambda server: Response(data={"error": {"message": "upstream failed"}}),
    "a cut answer": lambda server: completion("[pass]")._replace(cut=True),
    "an answer that does not come": lambda server: server.silence(3.0) or completion("[pass]"),
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_failures_that_may_pass_are_retried(trouble):
    with (
        Server(lambda number, body: completion("[bet]") if number else TROUBLES[trouble](server)) as server,
        engine(server, timeout=1.0) as opened,
    ):
        [reply] = opened.sample([request()])
        usage = opened.usage()
    assert reply.text == "[bet]"
    assert (usage.requests, usage.retries) == (2, 1)
    assert server.seen[0].body == server.seen[1].body


def test_retry_after_is_obeyed():
    with Server(lambda number, body: completion("[bet]") if number else error(429, "wait", Retry_After=2)) as server:
        with engine(server) as opened:
            opened.sample([request()])
        assert server.seen[1].at - server.seen[0].at >= 2.0
        server.behave = lambda number, body: error(429, "wait", Retry_After=3600)
        with engine(server) as opened, pytest.raises(EngineError, match="asks to wait 3600 seconds"):
            opened.sample([request()])


def test_retries_are_counted_and_limited():
    with Server(lambda number, body: error(502, "bad gateway")) as server, engine(server, retries=2) as opened:
        with pytest.raises(EngineError, match=r"it answered 502 \(bad gateway\), at the last of 3 attempts"):
            opened.sample([request()])
        assert opened.usage()[:2] == (3, 2)
    assert len(server.seen) == 3


@pytest.mark.parametrize(
    ("status", "code", "advice"),
    [
        (400, None, "leave_out"),
        (401, None, "key_variable"),
        (404, None, "name of the model"),
        (429, "insufficient_quota", "no credit left"),
    ],
)
def test_failures_that_do_not_pass_are_not_retried_and_say_what_to_do(status, code, advice):
    with (
        Server(lambda number, body: error(status, "no", code)) as server,
        engine(server) as opened,
        pytest.raises(EngineError, match=rf"it answered {status} \(no\)\. .*{advice}"),
    ):
        opened.sample([request()])
    assert len(server.seen) == 1


def test_a_failure_names_engine_and_player_and_cancels_the_other_requests():
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


def test_a_missing_server_is_reported_with_what_to_do():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
    settings = RemoteSettings(model="m", url=url, retries=1)
    with closing(OpenAIApi(settings)) as opened, pytest.raises(UsageError, match=r"connection failed.*it runs"):
        opened.probe()


def test_a_missing_model_is_reported_with_those_that_there_are():
    with Server(lambda number, body: error(404, "no such model")) as server:
        settings = RemoteSettings(model="pocket-larg", url=server.url)
        with closing(OpenAIApi(settings)) as opened, pytest.raises(UsageError, match="Did you mean pocket-large"):
            opened.probe()


def test_requests_are_spaced_by_their_rate_limit():
    with Server() as server, engine(server, requests_per_minute=600) as opened:
        started = time.monotonic()
        opened.sample([request(seed) for seed in range(8)])
        assert server.seen[-1].at - started >= 0.7


def test_tokens_are_spaced_by_their_rate_limit_and_unused_ones_are_given_back():
    """Each request may take some 600 tokens, so 60,000 a minute would be one in 0.6 s; it is counted as 14."""
    with Server() as server, engine(server, tokens_per_minute=60_000, concurrency=1) as opened:
        started = time.monotonic()
        opened.sample([request(seed) for seed in range(8)])
        assert 7 * (INPUT_TOKENS + OUTPUT_TOKENS) / 1000 <= server.seen[-1].at - started < 4.2
    with (
        Server(lambda number, body: completion("[bet]", usage=False)) as server,
        engine(server, tokens_per_minute=60_000, concurrency=1) as opened,
    ):
        started = time.monotonic()
        opened.sample([request(seed) for seed in range(3)])
        assert server.seen[-1].at - started >= 2 * 0.5
        assert opened.usage().uncounted == 3
        assert opened.usage().cost is None


def test_what_counts_of_a_request_is_what_the_server_has_counted():
    """Of what is taken for it before, all but its 11 tokens read and 3 written are given back."""
    counted = []

    class Noted(RateLimit):
        def take(self, amount, now):
            counted.append(amount)
            return 0.0

        def give_back(self, amount):
            counted.append(-amount)

    with Server() as server, engine(server, tokens_per_minute=60_000) as opened:
        opened._tokens = Noted(60_000)
        opened.sample([request(seed) for seed in range(5)])
    assert max(counted) > 100, "a reply may be long"
    assert sum(counted) == 5 * (INPUT_TOKENS + OUTPUT_TOKENS)


def test_a_seed_is_drawn_from_the_match_before_anything_is_sent():
    with Server() as server, engine(server, concurrency=1, seed=True) as opened:
        opened.sample([request(1), request(1), request(2)])
    seeds = [seen.body["seed"] for seen in server.seen]
    assert seeds[0] == seeds[1] != seeds[2]


def test_no_seed_is_sent_unless_asked_for_and_the_match_draws_the_same():
    """The server of vLLM on a processor ends at a request with a seed whose prompt it reads in two steps."""
    drawn = []
    for asked in (False, True):
        with Server() as server, engine(server, seed=asked) as opened:
            opened.probe()
            opened.sample([one := request(1)])
        assert [("seed" in seen.body) for seen in server.seen] == [asked, asked]
        drawn.append(one.rng.random())
    assert drawn[0] == drawn[1]


def test_an_illegal_masked_choice_is_retried():
    texts = iter(['{"action": "fold"}', '{"action": "bet"}'])
    with (
        Server(lambda number, body: completion(next(texts))) as server,
        engine(server, choice="json_schema") as opened,
    ):
        [reply] = opened.sample([request(reply="choice")])
    assert reply.text == "bet"
    schema = server.seen[0].body["response_format"]["json_schema"]["schema"]
    assert sorted(schema["properties"]["action"]["enum"]) == ["bet", "pass"]
    with Server(lambda number, body: completion("hm")) as server, engine(server, choice="structured_outputs") as opened:
        opened.settings = opened.settings.model_copy(update={"retries": 1})
        with pytest.raises(EngineError, match=r"'hm'.*bet.*choice = 'structured_outputs'"):
            opened.sample([request(reply="choice")])
    with Server() as server, engine(server) as opened, pytest.raises(UsageError, match=r"roles\.on_illegal = 'retry'"):
        opened.sample([request(reply="choice")])
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
        left = [thread.name for thread in threading.enumerate() if thread not in serving]
        assert [name for name in left if "process_request" not in name] == []  # those are the server's
