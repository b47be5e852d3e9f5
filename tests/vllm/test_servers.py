"""vLLM behind HTTP, on the real server: two replicas, of which one is killed and one is stopped while matches play."""

import os
import signal
import threading
import time
from functools import partial

import psutil
import pytest
from support.matches.kuhn import CHOICE, FREE, kuhn_matches, kuhn_pocket, played, roles_for
from support.models.pocket import allowed_tokens, plain_logprobs
from support.processes.family import descendants

from arena.lm.tokenization import ChatTokenizer
from arena.samplers.vllm_lm import VllmLM
from arena.samplers.vllm_servers import ServerPool, VllmServers
from arena.samplers.vllm_shape import VllmShape
from league.config import load as settings
from league.training.board.metrics_log import read_metrics
from league.training.loop.session import train

CONFIG = [
    "games={kuhn_poker={matches=48}}",
    "iterations=4",
    "snapshot_every=2",
    "in_flight=16",
    "threads=1",
    "model.vocabulary=300",
    "cold_start.steps=5",
    "engine.kind=vllm_server",
    "engine.vllm_server.replicas=2",
    "engine.vllm.max_model_len=512",
    "engine.vllm.max_lora_rank=8",
    "policies.main.weights=lora",
    "evaluation.matches=8",
]
SHAPE = VllmShape(adapters=True, max_loras=4, max_lora_rank=8, max_model_len=512)


def command_of(process):
    """Return a process's command line; "" of one that has ended since it was listed."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def test_a_league_trains_over_servers_of_which_one_is_killed(tmp_path):
    """Live adapters change names with every update, and the killed replica's matches are counted once."""
    config = settings.load("pocket-returns", CONFIG)
    killed = []

    def kill():
        while not killed:
            time.sleep(0.2)
            folder = tmp_path / "run" / "metrics.jsonl"
            if folder.exists() and folder.read_text().count("\n") >= 2:
                server = next(one for one in psutil.Process().children() if "vllm.entrypoints" in command_of(one))
                server.kill()
                killed.append(server.pid)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    outcome = train(config, tmp_path / "run")
    assert (outcome.finished, outcome.iteration) == (True, 4)
    assert killed
    lines = list(read_metrics(tmp_path / "run"))
    gaps = [line[key] for line in lines for key in line if key.endswith("gap")]
    assert len(gaps) >= 4
    assert max(gaps) < 1e-4  # nats: each update's weights played under their own name
    assert [line["kuhn_poker/matches"] for line in lines if "kuhn_poker/matches" in line] == [48] * 4


@pytest.fixture(scope="module")
def servers(base_folder, adapter_folders):
    """Return an engine with two replicas that are given up after 8 seconds of silence."""
    start = partial(VllmServers, pool=ServerPool(replicas=2, timeout=8.0))
    engine = VllmLM(base_folder, ChatTokenizer.read(base_folder), SHAPE, start)
    engine.register("base", base_folder)
    for player, folder in adapter_folders.items():
        engine.register(player, folder)
    yield engine
    engine.close()


def seated(players, number):
    return [
        one._replace(players=(players[one.index % len(players)], players[(one.index * 5 + 1) % len(players)]))
        for one in kuhn_matches(number)
    ]


def plain(model_of, engine, trace):
    allowed = None
    if trace.mask is not None:
        tokens = engine.tokenizer.trie(trace.mask).tokens
        allowed = allowed_tokens(tokens, tokens.index(trace.reply_ids))
    return plain_logprobs(model_of(trace.snapshot), trace.prompt_ids, trace.reply_ids, allowed)


@pytest.mark.parametrize("form", [CHOICE, FREE], ids=["choice", "free"])
def test_log_probs_are_those_of_torch(servers, base_folder, adapter_folders, form, record_property):
    """For base and adapters in one batch, by ids alone."""
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    models = {}

    def model_of(player):
        if player not in models:
            model = AutoModelForCausalLM.from_pretrained(base_folder, attn_implementation="eager").eval()
            models[player] = (
                model if player == "base" else PeftModel.from_pretrained(model, adapter_folders[player]).eval()
            )
        return models[player]

    players = ["base", *adapter_folders]
    episodes = played(servers, seated(players, 24), 24, roles_for(**form))
    traces = [turn.trace for episode in episodes for turn in episode.turns]
    assert {trace.snapshot for trace in traces} == set(players)
    gaps = [
        abs(a - b) for trace in traces for a, b in zip(trace.logprobs, plain(model_of, servers, trace), strict=True)
    ]
    record_property("largest gap in nats", max(gaps))
    assert len(gaps) > 50
    assert max(gaps) < 1e-3


def strike(server, pids, end):
    """Send a signal to a server's processes while it has requests to answer."""
    while not server.load:
        time.sleep(0.001)
    for pid in pids:
        os.kill(pid, end)
    assert server.load


def test_a_replica_that_is_killed_and_one_that_is_stopped_are_replaced(servers, adapter_folders):
    """All matches end, each once, with the replies that undisturbed servers give."""
    matches = seated(["base", *adapter_folders], 40)
    expected = {e.request.index: [t.reply for t in e.turns] for e in played(servers, matches, 16, roles_for(**CHOICE))}
    for end in (signal.SIGKILL, signal.SIGSTOP):
        servers.refresh()  # so that nothing is known yet
        before = servers._process.pids
        which = 0 if end is signal.SIGSTOP else 1
        victims = [before[which], *(descendants(before[which]) if end is signal.SIGSTOP else [])]
        thread = threading.Thread(target=strike, args=(servers._process._servers[which], victims, end))
        thread.start()
        episodes = played(servers, matches, 4, roles_for(**CHOICE))
        thread.join()
        assert sorted(episode.request.index for episode in episodes) == [match.index for match in matches]
        assert {e.request.index: [t.reply for t in e.turns] for e in episodes} == expected
        deadline = time.monotonic() + 300
        while set(servers._process.pids) & {victims[0]} or not all(s.up for s in servers._process._servers):
            assert time.monotonic() < deadline, "no replacement"
            time.sleep(0.5)


def test_whole_models_are_exchanged_in_place(tmp_path):
    first, second = kuhn_pocket(hidden_size=128, seed=1), kuhn_pocket(hidden_size=128, seed=2)
    start = partial(VllmServers, pool=ServerPool(replicas=1))
    engine = VllmLM(None, first, VllmShape(adapters=False, max_model_len=512), start)
    try:
        engine.add("first", first)
        engine.add("second", second)
        episodes = played(engine, kuhn_matches(12, ("first", "second")), 12, roles_for(**CHOICE))
        traces = [turn.trace for episode in episodes for turn in episode.turns]
        models = {"first": first, "second": second}
        for trace in traces:
            assert trace.logprobs == pytest.approx(plain(lambda player: models[player].model, engine, trace), abs=1e-3)
    finally:
        engine.close()
