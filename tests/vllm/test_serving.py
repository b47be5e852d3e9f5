"""One engine, many adapters: more than it has slots for, weights that change in training, and a wrong one found out."""

import itertools
import subprocess
import time

import pytest
import torch
from support.matches.kuhn import CHOICE, FREE, SPEC, kuhn_matches, played, roles_for
from support.models.adapters import scrambled
from support.models.pocket import allowed_tokens, plain_logprobs

from arena.lm.lora import AdapterShape
from arena.samplers.vllm_process import _errors_to
from arena.samplers.vllm_shape import last_lines
from arena.scheduler import play
from games.common.errors import UsageError
from games.registry import make_game
from learners.batching import to_batch
from learners.losses.objective import Objective, Surrogate
from learners.trajectories import return_scale, to_trajectories
from learners.update.learner import LearningError, StepSettings, update
from learners.update.policy import Policy

STEPS = StepSettings(
    learning_rate=1e-3, inner_steps=1, max_grad_norm=1.0, max_gap=0.05, max_tokens=8192, minibatch=1000
)


def words(episodes):
    return [[(turn.player, turn.reply) for turn in episode.turns] for episode in episodes]


@pytest.mark.parametrize("form", [CHOICE, FREE], ids=["choice", "free"])
def test_the_number_in_flight_changes_no_reply(engine, form):
    matches = kuhn_matches(30, ("adapter0", "adapter1"))
    expected = played(engine, matches, 30, roles_for(**form))
    engine.refresh()
    assert words(played(engine, matches, 3, roles_for(**form))) == words(expected)
    assert len({str(one) for one in words(expected)}) > 5


def test_more_prompt_than_one_step_reads(engine):
    """50 prompts of 150 tokens that share nothing say side by side what each says alone."""
    weights = engine._weights.of("base")
    process = engine._vllm(weights)

    def ask(number):
        prompt = tuple((number * 7 + place * (number + 1)) % 300 for place in range(150))
        return process.submit(process.generate(prompt, weights, seed=number, max_tokens=2, logprobs=0))

    crowd = [one.result().token_ids for one in [ask(number) for number in range(50)]]
    engine.refresh()
    alone = [ask(number).result().token_ids for number in range(50)]
    assert len({tuple(ids) for ids in crowd}) > 10
    assert sum(one == other for one, other in zip(crowd, alone, strict=True)) >= 48  # a sum may round otherwise


@pytest.mark.parametrize("form", [CHOICE, FREE], ids=["choice", "free"])
def test_the_gap_check_finds_an_adapter_that_is_not_the_learners(engine, adapters, adapter_folders, form):
    matches, roles = kuhn_matches(12, ("adapter1", "adapter1")), roles_for(**form)
    episodes = played(engine, matches, 12, roles)
    trajectories = to_trajectories(episodes, lambda _: roles, {"kuhn_poker": return_scale(SPEC)})
    batch = to_batch("main", trajectories, [[1.0] * len(one.turns) for one in trajectories], {})
    wrong, right = (
        Policy(
            "main",
            adapters.with_weights(adapter_folders[name]).copy(),
            weight_decay=0.0,
            magnet=False,
            reference=False,
        )
        for name in ("adapter2", "adapter1")
    )
    with pytest.raises(LearningError, match="recorded for adapter1 differ from the learner's"):
        update(wrong, batch, Objective(Surrogate(), {}), STEPS)
    assert update(right, batch, Objective(Surrogate(), {}), STEPS)["gap"] < 1e-4


def test_more_adapters_than_slots(engine, adapters, tmp_path_factory, record_property):
    """64 adapters in 4 slots play every pairing once, in less than twice the time of 4 adapters' as many matches."""
    folder = tmp_path_factory.mktemp("many")
    for number in range(64):
        view = scrambled(adapters.add(AdapterShape(rank=8, alpha=16.0), number), 100 + number)
        view.save(folder / str(number))
        view.release()
        engine.register(f"many{number}", folder / str(number))
    pairs = list(itertools.combinations(range(64), 2))
    seconds = {4: [], 64: []}
    roles = roles_for(**FREE)
    for count in (4, 64, 4, 64):
        matches = [
            one._replace(players=(f"many{first % count}", f"many{second % count}"))
            for one, (first, second) in zip(kuhn_matches(len(pairs)), pairs, strict=True)
        ]
        started = time.perf_counter()
        episodes = played(engine, matches, len(matches), roles)
        seconds[count].append(time.perf_counter() - started)
        assert len(episodes) == len(pairs)
    record_property("seconds of 4 and of 64 adapters", str(seconds))
    assert min(seconds[64]) < 2 * min(seconds[4])  # the better of two: other tests run beside


def test_new_weights_are_seen_by_matches_that_begin_after(engine, adapters):
    live = scrambled(adapters.add(AdapterShape(rank=8, alpha=16.0), 0), 7)
    engine.add("live", live)
    before, ended, under_way = live.frozen_copy(), [], []

    def on_episode(episode):
        ended.append(episode.request.index)
        if len(ended) == 12:
            scrambled(live, 8)
            engine.refresh()
            under_way.extend(set(range(12 + 6)) - set(ended))

    roles = roles_for()
    episodes = play(
        kuhn_matches(60, ("live", "live")),
        roles_of=lambda _: roles,
        engine_of=lambda _: engine,
        make_game=make_game,
        in_flight=6,
        on_episode=on_episode,
    )
    fits = [[_fits(model, episode) for model in (before, live)] for episode in episodes]
    assert all(sum(pair) == 1 for pair in fits)
    old = {episode.request.index for episode, (is_old, _) in zip(episodes, fits, strict=True) if is_old}
    assert set(ended[:12]) <= old
    assert set(range(24, 60)).isdisjoint(old)
    assert not engine._weights._pinned
    assert len(list(engine._folder.glob("[0-9]*"))) == 1  # the old weights are gone


@torch.no_grad()
def _fits(model, episode):
    """Return whether all log-probs of a match are those of a model."""
    gaps = []
    for turn in episode.turns:
        tokens = model.trie(turn.trace.mask).tokens
        allowed = allowed_tokens(tokens, tokens.index(turn.trace.reply_ids))
        model.adapters.activate(model.adapter)
        expected = plain_logprobs(model.model, turn.trace.prompt_ids, turn.trace.reply_ids, allowed)
        gaps += [abs(a - b) for a, b in zip(turn.trace.logprobs, expected, strict=True)]
    return max(gaps) < 1e-3


def test_what_the_engine_cannot_hold_is_told_with_what_would_work(engine, adapters, tmp_path):
    adapters.add(AdapterShape(rank=16), 0).save(tmp_path / "wide")
    engine.register("wide", tmp_path / "wide")
    with pytest.raises(
        UsageError, match=r"has rank 16, and the engine takes at most 8\. Set engine\.vllm\.max_lora_rank = 16"
    ):
        played(engine, kuhn_matches(1, ("wide", "wide")), 1, roles_for())
    long = roles_for(**{**FREE, "max_reply_tokens": 2000})
    with pytest.raises(UsageError, match=r"its reply up to 2000, .*Set engine.vllm.max_model_len = 20\d\d or more"):
        played(engine, kuhn_matches(1, ("base", "base")), 1, long)
    engine.register("other", tmp_path)
    with pytest.raises(UsageError, match="is not an adapter of"):
        played(engine, kuhn_matches(1, ("other", "other")), 1, roles_for())


def test_what_vllms_processes_write_is_kept_out_of_the_terminal(tmp_path, capfd):
    log = tmp_path / "vllm.log"
    with _errors_to(log):
        subprocess.run(["sh", "-c", "echo of a process >&2"], check=True)
    subprocess.run(["sh", "-c", "echo afterwards >&2"], check=True)
    assert log.read_text() == "of a process\n"
    assert capfd.readouterr().err == "afterwards\n"
    assert last_lines(log) == "\n  of a process"
    assert not last_lines(tmp_path / "none.log")
