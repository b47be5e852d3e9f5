"""OpenEnv's own client plays a seat of our games: the rewards are those of our own matches, and TRL trains on them."""

import os
import re
import signal
import subprocess
import sys

import pytest
from support.matches.seat_outside import own_returns
from support.pages import blocks, page_of
from support.source import ROOT

from league.cli import main

pytest.importorskip("openenv", reason="openenv is not installed here: make test-outward has it")
from openenv.core import GenericEnvClient

PAGE = page_of("doors")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return the folder of a run whose player knows what a legal reply looks like, so that matches differ."""
    path = tmp_path_factory.mktemp("openenv") / "run"
    settings = {
        "iterations": 1, "snapshot_every": 1, "evaluation.exact": "false", "evaluation.matches": 4, "threads": 1,
        "games.kuhn_poker.matches": 16, "roles.max_reply_tokens": 6, "cold_start.steps": 300, "cold_start.matches": 200,
        "model.hidden_size": 32, "model.layers": 1, "model.intermediate_size": 32,
        "roles.wording": "full",  # as a seat at the door is asked
    }  # fmt: skip
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    assert main(["train", "pocket-free", "--run-dir", str(path), *words]) == 0
    return path


@pytest.fixture
def served():
    """Return a function that serves a seat against a player, and its address; all servers end with the test."""
    started = []

    def serve(player, game="kuhn_poker", **environment):
        words = ["-m", "league", "serve", player, "--openenv", "--game", game, "--port", "0", "--seed", "7"]
        process = subprocess.Popen(
            [sys.executable, *words], cwd=ROOT, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment}
        )
        started.append(process)
        return re.search(r"http://\S+", process.stdout.readline()).group()

    yield serve
    for process in started:
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
        assert "The server has stopped." in process.stdout.read()


def played(client, reply, number=None):
    """Play one match in one session; return its reward, and the chats that were shown."""
    result, chats = client.reset(**({} if number is None else {"seed": number})), []
    while not result.done:
        assert result.reward == 0.0
        chats.append(result.observation["messages"])
        result = client.step({"text": reply})
    return result.reward, chats


@pytest.mark.slow
def test_rewards_are_the_returns_of_the_leagues_own_matches(served):
    with GenericEnvClient(base_url=served("random")).sync() as client:
        rewards = [played(client, "I am sure. [bet]")[0] for _ in range(40)]
        again = [played(client, "[bet]", number)[0] for number in (3, 12)]
    expected = own_returns(40, 7, "bet")
    assert rewards == expected
    assert again == [expected[3], expected[12]]
    assert len(set(expected)) > 2


@pytest.mark.slow
def test_sessions_play_side_by_side_and_each_is_asked_as_the_league_asks(served):
    url = served("equilibrium")
    with GenericEnvClient(base_url=url).sync() as one, GenericEnvClient(base_url=url).sync() as other:
        first, second = one.reset(seed=0).observation, other.reset(seed=1).observation
        assert (first["role"], second["role"]) == ("first", "second")
        assert first["legal"] == ["pass", "bet"]
        assert first["messages"][0]["role"] == "system"
        assert "Kuhn poker" in first["messages"][0]["content"]
        result = one.step({"text": "I have no idea."})
        assert not result.done
        assert result.observation["messages"] != first["messages"], "the reply was refused, and it is asked again"
        assert one.step({"text": "none"}).observation["illegal_replies"] == 2
        assert not other.step({"text": "[pass]"}).observation["illegal_replies"]
        with pytest.raises(Exception, match="There is no turn to answer"):
            one.step({"text": "[bet]"})


@pytest.mark.slow
def test_trl_trains_two_steps_against_a_frozen_snapshot(served, trained, tmp_path):
    """The script of the page, as it stands, with a snapshot as the opponent and another model that learns."""
    pytest.importorskip("trl", reason="TRL is not installed here: make test-outward has it")
    pytest.importorskip("datasets", reason="datasets is not installed here: make test-outward has it")
    model = tmp_path / "model"
    assert main(["push", str(trained), "me/player", "--dry-run", "--out", str(model)]) == 0
    url = served(str(trained))
    script = tmp_path / "train.py"
    [code] = [text for _, language, text in blocks(PAGE) if language == "py"]
    script.write_text(code + MORE, encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, str(script), str(model), url],
        cwd=tmp_path,
        env={**os.environ, "TRL_EXPERIMENTAL_SILENCE": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    said, steps, moved, rewards = ended.stdout.splitlines()[-4:]
    assert re.fullmatch(r"reward by step: \S+ \S+", said)
    assert steps == "2"
    assert float(moved) > 0.0
    seen = [float(reward) for reward in rewards.split()]
    assert len(seen) == 8, "one group"
    assert set(seen) <= {-2.0, -1.0, 1.0, 2.0}
    assert len(set(seen)) > 1, "a group whose members fare alike teaches nothing"


# What the test wants to know of the script's run: its steps, how far the weights have moved, and a group's rewards.
MORE = """
from transformers import AutoModelForCausalLM
print(trainer.state.global_step)
before = dict(AutoModelForCausalLM.from_pretrained(sys.argv[1]).named_parameters())
print(max(float((weight - before[name]).abs().max()) for name, weight in trainer.model.named_parameters()))
print(*trainer.rollout_func(["3"] * 8, trainer)["match_return"])
"""
