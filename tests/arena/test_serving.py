"""A model behind OpenAI's API: what OpenAI's own client reads, whose log-probs they are, and what is refused how."""

import asyncio
import gc
import itertools
import json
import random
import socket
from concurrent.futures import Future
from http.client import HTTPConnection
from math import exp

import openai
import pytest
from starlette.requests import Request
from support.models.pocket import allowed_tokens, plain_logprobs

from arena.lm.decoding.decode import generate
from arena.serving.chat_server import ChatServer
from arena.serving.completions import Completions
from arena.serving.requests import Served
from arena.serving.web_pages import MAX_BODY, Call, Workload
from roles.truncation import NO_TRUNCATION

CHAT = [{"role": "system", "content": "You play cards."}, {"role": "user", "content": "Your card: J"}]
CHOICE = {"structured_outputs": {"choice": ["pass", "bet", "bet more"]}}


@pytest.fixture(scope="module")
def server(lm):
    with Completions(lm, "main-000120") as completions:
        served = Served("main-000120", 1_700_000_000, 1.0, NO_TRUNCATION, 16)
        with ChatServer(("127.0.0.1", 0), completions, served) as server:
            yield server


@pytest.fixture(scope="module")
def client(server):
    with openai.OpenAI(base_url=server.url, api_key="none", max_retries=0) as client:
        yield client


def ask(client, **fields):
    return client.chat.completions.create(model="main-000120", messages=CHAT, **fields)


def test_the_models_are_listed(client):
    [model] = client.models.list()
    assert (model.id, model.created, model.owned_by) == ("main-000120", 1_700_000_000, "league")
    assert client.models.retrieve("main-000120") == model
    with pytest.raises(openai.NotFoundError, match="There is no model 'other' here, only main-000120"):
        client.models.retrieve("other")


def test_log_probs_of_a_free_reply_are_those_of_plain_passes(client, lm, plain):
    answer = ask(client, seed=3, max_completion_tokens=12, logprobs=True, top_logprobs=2)
    scores = answer.choices[0].logprobs.content
    prompt = lm.encode_prompt(CHAT)
    [sampled] = generate(lm, [prompt], [random.Random("3/0")], temperature=1.0, max_tokens=12, max_batch_tokens=8192)
    assert answer.choices[0].message.content == lm.decode(sampled.reply_ids)
    assert [score.logprob for score in scores] == pytest.approx(
        plain_logprobs(plain, prompt, sampled.reply_ids), abs=1e-4
    )
    assert [score.logprob for score in scores] == pytest.approx(sampled.logprobs, abs=1e-4)
    assert all(len(score.top_logprobs) == 2 for score in scores)
    assert all(score.logprob <= score.top_logprobs[0].logprob + 1e-6 for score in scores)
    finished = sampled.reply_ids[-1] == lm.end_token
    assert answer.choices[0].finish_reason == ("stop" if finished else "length")
    assert answer.usage.prompt_tokens == len(prompt)
    assert answer.usage.completion_tokens == len(sampled.reply_ids)


def test_a_choice_has_the_exact_distribution_of_the_mask(client, lm, plain):
    replies = CHOICE["structured_outputs"]["choice"]
    tokens, prompt = lm.trie(tuple(replies)).tokens, lm.encode_prompt(CHAT)
    exact = {
        reply: sum(plain_logprobs(plain, prompt, tokens[i], allowed_tokens(tokens, i)))
        for i, reply in enumerate(replies)
    }
    assert sum(map(exp, exact.values())) == pytest.approx(1.0)
    answer = ask(client, seed=1, n=128, logprobs=True, extra_body=CHOICE)
    for choice in answer.choices:
        assert sum(score.logprob for score in choice.logprobs.content) == pytest.approx(
            exact[choice.message.content], abs=1e-4
        )
    drawn = [choice.message.content for choice in answer.choices]
    for reply, logprob in exact.items():
        p = exp(logprob)
        assert abs(drawn.count(reply) - 128 * p) <= 4 * (128 * p * (1 - p)) ** 0.5 + 1


def test_at_temperature_0_it_is_the_likeliest_token_whatever_the_seed(client, lm, plain):
    answers = [ask(client, temperature=0, seed=seed, max_tokens=8, logprobs=True, top_logprobs=1) for seed in range(3)]
    assert len({answer.choices[0].message.content for answer in answers}) == 1
    scores = answers[0].choices[0].logprobs.content
    assert all(score.logprob == pytest.approx(score.top_logprobs[0].logprob) for score in scores)
    assert all(score.logprob < 0.0 for score in scores)  # at temperature 1, not those of a draw without a choice
    chosen = {ask(client, temperature=0, seed=seed, extra_body=CHOICE).choices[0].message.content for seed in range(3)}
    assert len(chosen) == 1


def test_equal_seeds_say_the_same_and_others_do_not(client):
    def said(seed):
        return [choice.message.content for choice in ask(client, seed=seed, n=8, max_tokens=6).choices]

    assert said(5) == said(5)
    assert len({tuple(said(seed)) for seed in range(4)}) == 4
    assert len({said(5)[i] for i in range(8)}) > 1


def test_a_streamed_answer_says_what_a_whole_one_says(client):
    whole = ask(client, seed=7, n=2, max_tokens=6, logprobs=True)
    pieces = list(
        ask(client, seed=7, n=2, max_tokens=6, logprobs=True, stream=True, stream_options={"include_usage": True})
    )
    for index, choice in enumerate(whole.choices):
        own = [one for piece in pieces for one in piece.choices if one.index == index]
        assert "".join(one.delta.content or "" for one in own) == choice.message.content
        assert own[0].delta.role == "assistant"
        assert [one.logprobs for one in own if one.logprobs] == [
            type(own[1].logprobs).model_validate(choice.logprobs.model_dump())
        ]
        assert own[-1].finish_reason == choice.finish_reason
    assert pieces[-1].usage == whole.usage
    assert len({piece.id for piece in pieces}) == 1


def test_special_tokens_in_a_message_stay_text(client, lm):
    """As in training: what a player says cannot end the prompt."""
    said = lm.tokenizer.eos_token
    told = client.chat.completions.create(
        model="main-000120", messages=[{"role": "user", "content": [{"type": "text", "text": said}]}], max_tokens=1
    )
    assert told.usage.prompt_tokens == len(lm.encode_prompt([{"role": "user", "content": said}]))


@pytest.mark.parametrize(
    ("fields", "message", "param"),
    [
        ({"temperature": -1}, r"temperature = -1: .*greater than or equal to 0. .sampling temperature", "temperature"),
        ({"top_p": 0}, "top_p = 0: ", "top_p"),
        ({"messages": []}, "messages = ", "messages"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages.0.role = 'tool'", "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages", "messages"),
        ({"stop": ["\n"]}, "stop is not supported here: leave it out.", "stop"),
        ({"tools": [{}]}, "tools is not supported", "tools"),
        ({"response_format": {"type": "json_object"}}, "structured_outputs = ", "response_format"),
        ({"temprature": 1}, "There is no key named 'temprature'. Did you mean temperature?", None),
        ({"structured_outputs": {"choice": ["a", "a"]}}, "must hold distinct texts", "structured_outputs"),
        ({"structured_outputs": {"regex": "a"}}, "structured_outputs.regex", None),
        ({"structured_outputs": {"choice": ["a", "b"]}, "top_p": 0.5}, "leave out top_p", "top_p"),
        ({"messages": [{"role": "user", "content": "6" * 5000}]}, "reads at most 1024", "messages"),
        ({"n": 1000}, "n = 1000", "n"),
        ({"top_logprobs": 21, "logprobs": True}, "top_logprobs = 21", "top_logprobs"),
    ],
)
def test_what_cannot_be_kept_to_is_refused_in_a_sentence(client, fields, message, param):
    body = {"model": "main-000120", "messages": CHAT} | fields
    with pytest.raises(openai.BadRequestError, match=message) as refused:
        client.post("/chat/completions", body=body, cast_to=object)
    assert refused.value.param == param
    assert refused.value.type == "invalid_request_error"


def test_another_model_is_none_of_ours(client):
    with pytest.raises(openai.NotFoundError, match="There is no model 'gpt-5' here, only main-000120") as refused:
        client.chat.completions.create(model="gpt-5", messages=CHAT)
    assert refused.value.code == "model_not_found"


@pytest.mark.parametrize(
    ("method", "path", "headers", "body", "status", "message"),
    [
        ("POST", "/v1/chat/completions", {}, b"{", 400, "The body is not JSON"),
        ("POST", "/v1/chat/completions", {}, b"[" * 100_000, 400, "The body is not JSON"),
        ("POST", "/v1/chat/completions", {}, b"[]", 400, "should be a JSON object"),
        ("POST", "/v1/chat/completions", {}, b"{}", 400, "The key 'model' is missing"),
        ("POST", "/v1/chat/completions", {}, None, 411, "needs a Content-Length"),
        ("POST", "/v1/chat/completions", {"Content-Length": "x"}, None, 400, "not an HTTP request"),
        ("POST", "/v1/chat/completions", {"Content-Type": "text/plain"}, b"{}", 415, "Content-Type: application/json"),
        ("POST", "/v1/chat/completions", {"Content-Length": str(MAX_BODY + 1)}, None, 413, "the limit is"),
        ("POST", "/v1/completions", {}, b"{}", 404, "There is no POST '/v1/completions' here"),
        ("GET", "/", {}, None, 404, "only GET /v1/models and POST /v1/chat/completions"),
        ("DELETE", "/v1/models/main-000120", {}, None, 405, "this page takes GET"),
        ("GET", "/v1/chat/completions", {}, None, 405, "this page takes POST, with a JSON body"),
    ],
)
def test_every_refusal_has_openais_form(server, method, path, headers, body, status, message):
    connection = HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.putrequest(method, path)
    usual = {"Content-Type": "application/json"} | ({"Content-Length": str(len(body))} if body is not None else {})
    for name, value in (usual | headers).items():
        connection.putheader(name, value)
    connection.endheaders(body)
    answer = connection.getresponse()
    error = json.loads(answer.read())["error"]
    assert (answer.status, answer.headers["Content-Type"]) == (status, "application/json")
    assert message in error["message"]
    assert set(error) == {"message", "type", "param", "code"}
    connection.close()


def test_a_client_that_goes_in_the_middle_harms_nobody(server, client):
    for text in (b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 50\r\n\r\n{", b"nonsense\r\n\r\n", b""):
        with socket.create_connection(("127.0.0.1", server.port)) as gone:
            gone.sendall(text)
    assert ask(client, max_tokens=1).choices


def test_a_broken_model_is_an_error_of_the_server(lm, capsys):
    from support.models.pocket import copied, sharpened

    broken = sharpened(copied(lm), float("nan"))
    with Completions(broken, "broken") as completions:
        served = Served("broken", 0, 1.0, NO_TRUNCATION, 4)
        with (
            ChatServer(("127.0.0.1", 0), completions, served) as server,
            openai.OpenAI(base_url=server.url, api_key="none", max_retries=0) as client,
        ):
            for extra in ({}, CHOICE):
                with pytest.raises(openai.InternalServerError, match="numbers that are not finite"):
                    client.chat.completions.create(model="broken", messages=CHAT, extra_body=extra)
    assert "a request failed" in capsys.readouterr().err


def test_what_comes_at_the_last_moment_is_had_or_withdrawn(caplog):
    """Whichever step of the loop it comes in: a turn that is neither is lost for its whole time."""

    async def nothing():
        await asyncio.sleep(60)

    async def waited(steps):
        loop, call = (
            asyncio.get_running_loop(),
            Call(Request({"type": "http", "method": "GET", "headers": []}, nothing), Workload()),
        )
        reply = Future()

        def come(steps):
            if steps:
                loop.call_soon(come, steps - 1)
            elif reply.set_running_or_notify_cancel():
                reply.set_result("a turn")

        loop.call_soon(come, steps)
        try:
            return await call.wait([reply], 0)
        except TimeoutError:
            return reply.cancelled()

    ended = [asyncio.run(waited(steps)) for steps in range(6)]
    gc.collect()  # asyncio tells of errors that nobody has looked at when they are forgotten
    assert all(one in (True, ["a turn"]) for one in ended), ended
    assert not caplog.records


def test_many_at_once_say_what_each_says_alone(server, client):
    from concurrent.futures import ThreadPoolExecutor

    def one(seed):
        extra = CHOICE if seed % 2 else {}
        return ask(client, seed=seed, max_tokens=5, extra_body=extra).choices[0].message.content

    with ThreadPoolExecutor(16) as pool:
        crowd = list(pool.map(one, range(24)))
    same = sum(itertools.starmap(lambda seed, said: said == one(seed), enumerate(crowd)))
    assert same >= 23  # a sum may round otherwise
