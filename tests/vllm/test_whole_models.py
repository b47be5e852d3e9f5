"""Whole models in one engine: their weights are exchanged in place. At the end its process is killed."""

import os
import signal
import time

import psutil
import pytest
import torch
from support.matches.kuhn import FREE, kuhn_matches, kuhn_pocket, played, roles_for
from support.models.pocket import sharpened

from arena.errors import EngineError
from arena.samplers.torch_lm import TorchLM

NAMES = ("live", "frozen")


@pytest.fixture(scope="module")
def models():
    return {name: kuhn_pocket(seed=seed, hidden_size=128) for seed, name in enumerate(NAMES)}


@pytest.fixture(scope="module")
def started(models, tmp_path_factory):
    """Return the engine, and the processes that it has; another engine's may be there too."""
    from arena.samplers.vllm_lm import VllmLM
    from arena.samplers.vllm_shape import VllmShape

    folder = tmp_path_factory.mktemp("frozen")
    models["frozen"].save(folder)
    engine = VllmLM(None, models["live"], VllmShape(adapters=False, max_model_len=1024, sleep=True))
    engine.add("live", models["live"])
    engine.register("frozen", folder)
    before = _children()
    played(engine, kuhn_matches(1, NAMES), 1, roles_for())
    yield engine, _children() - before
    engine.close()


@pytest.fixture(scope="module")
def whole(started):
    return started[0]


def distributions_agree(whole, models):
    """Return the engine's turns, after comparing each log-prob with that of this process's engine."""
    torch_engine = TorchLM()
    for name, lm in models.items():
        torch_engine.add(name, lm)
    whole.refresh()
    turns = [turn for one in played(whole, kuhn_matches(20, NAMES), 20, roles_for()) for turn in one.turns]
    assert {turn.player for turn in turns} == set(NAMES)
    tables = {}
    for turn in turns:
        lm = models[turn.player]
        tries = [lm.trie(turn.trace.mask)]
        with torch.no_grad():
            (chunk,) = lm.plan_choice([turn.trace.prompt_ids], tries, 8192)
            logprobs = lm.choice_logprobs(chunk, tries, 1.0).replies[0]
        tables[turn.player, turn.observation] = logprobs.tolist()
        expected = float(logprobs[turn.trace.mask.index(turn.reply)])
        assert sum(turn.trace.logprobs) == pytest.approx(expected, abs=1e-3)
    return tables


def test_two_models_meet_and_live_weights_are_exchanged_in_place(whole, models):
    before = distributions_agree(whole, models)
    engine_processes = _children()
    sharpened(models["live"], 1.5)
    after = distributions_agree(whole, models)
    changed = [key for key in before.keys() & after.keys() if before[key] != pytest.approx(after[key], abs=0.05)]
    assert {player for player, _ in changed} == {"live"}
    assert _children() == engine_processes


def test_after_a_rest_it_says_the_same(whole):
    """Without a GPU vLLM keeps its memory; that it stops, loses its cache and continues is the same."""
    matches, roles = kuhn_matches(20, NAMES), roles_for(**FREE)
    before = played(whole, matches, 20, roles)
    whole.sleep()
    whole.sleep()
    assert whole._process._asleep
    assert played(whole, matches, 20, roles) == before
    assert not whole._process._asleep


def test_ctrl_c_is_not_for_the_engine_and_a_dead_one_is_an_error(started):
    whole, processes = started
    assert processes
    for process in processes:
        os.kill(process, signal.SIGINT)
    time.sleep(1.0)
    whole.refresh()
    assert played(whole, kuhn_matches(2, NAMES), 2, roles_for())
    for process in processes:
        os.kill(process, signal.SIGKILL)
    whole.refresh()
    with pytest.raises(EngineError, match="engine VllmLM failed on a request for"):
        played(whole, kuhn_matches(200, NAMES), 2, roles_for())


def _children():
    """Return the processes of vLLM that run: one that has ended may not have been waited for yet."""
    running = [child for child in psutil.Process().children(recursive=True) if child.status() != psutil.STATUS_ZOMBIE]
    return {child.pid for child in running if "resource_tracker" not in " ".join(child.cmdline())}
