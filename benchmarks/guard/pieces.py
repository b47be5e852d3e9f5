"""The pieces of the project's work that the guard watches, each small: between two switches of the processor."""

from __future__ import annotations

import math
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from arena.records import Reply, ReplyRequest
from arena.samplers.scripted import Random
from benchmarks.guard import yardsticks
from benchmarks.guard.clocks import children_time, own_time
from benchmarks.guard.counts import Counts, of_a_command
from benchmarks.report.provenance import ROOT
from benchmarks.speed.arena import GAME, arena_steps
from benchmarks.speed.workload import match_requests, play_all
from games.registry import make_game
from learners.batching import ChoiceRow, Draw, TrainBatch
from learners.record_store.sqlite import SqliteRecordStore
from roles.cards import load_roles


class Piece(NamedTuple):
    """A piece of work, the yardstick that its time is measured by, and what is counted of it."""

    run: Callable[[], object]
    yardstick: Callable[[], object]
    rounds: int = 10  # least number of times that both run in turn
    clock: Callable[[], float] = own_time
    counts: Callable[[], Counts] | None = None  # None: those of a run


Make = Callable[[ExitStack], Piece]


class _ByTheReferee(Random):
    """A random player that is asked for each reply, as players are whose replies cannot be looked up."""

    def sample(self, requests: Sequence[ReplyRequest]) -> list[Reply]:
        """Answer as ``Random`` does."""
        return super().sample(requests)


def arena(_: ExitStack) -> Piece:
    """Draw matches of Kuhn poker between random players, all records kept."""
    requests = match_requests(GAME, [("random", "random")] * 1_000)
    return Piece(lambda: arena_steps(requests, 64), yardsticks.plain_python)


def referee(_: ExitStack) -> Piece:
    """Play the same matches turn by turn: what a match costs beside its replies."""
    requests = match_requests(GAME, [("random", "random")] * 250)
    roles, engine = load_roles(make_game(GAME).spec), _ByTheReferee()
    return Piece(lambda: play_all(requests, roles, engine), yardsticks.plain_python)


def sampler(_: ExitStack) -> Piece:
    """Sample a small language model's replies in Kuhn poker, after its weights have changed."""
    from arena.samplers.torch_lm import TorchLM
    from benchmarks.speed.sampler import Recording, play_kuhn, pocket_model

    engine = TorchLM()
    engine.add("lm", pocket_model())
    recording = Recording(engine)
    play_kuhn(64, recording)

    def sample() -> None:
        engine.refresh()
        for batch in recording.batches:
            engine.sample(batch)

    return Piece(sample, yardsticks.Products(256, 128, 16).forward)


def learner(_: ExitStack) -> Piece:
    """Update a model of few weights on many rows: what an update costs beside its products."""
    from arena.lm.pocket import PocketShape, build_pocket
    from learners.losses.objective import Objective, Surrogate
    from learners.update.learner import StepSettings, update
    from learners.update.policy import Policy

    shape = PocketShape(hidden_size=8, layers=1, heads=1, kv_heads=1, intermediate_size=8, vocabulary=300)
    lm = build_pocket([" ".join(map(str, range(40)))], shape, seed=0)
    policy, objective = Policy("main", lm, weight_decay=0.0, magnet=False), Objective(Surrogate(), {})
    steps = StepSettings(learning_rate=1e-4, inner_steps=1, max_grad_norm=1.0, max_gap=math.inf, max_tokens=4096)
    batch = _batch(rows=256, tokens=12)
    return Piece(lambda: update(policy, batch, objective, steps), yardsticks.Products(256, 128, 8).learn)


def _batch(rows: int, tokens: int) -> TrainBatch:
    """Return rows of six replies each, with prompts that differ from their first token on."""
    rng = random.Random(0)
    chosen = []
    for _ in range(rows):
        prompt = tuple(rng.choices(range(256), k=tokens))
        draws = tuple(Draw(reply, (-1.0,), 1.0, 0.5 / rows, -0.5 / rows) for reply in range(6))
        numbers = ([1.0] * 6, [1 / rows] * 6, [0.5 / rows] * 6, [-0.5 / rows] * 6)
        chosen.append(ChoiceRow(GAME, GAME, prompt, tuple("123456"), 1.0, *numbers, draws))
    return TrainBatch("main", tuple(chosen), (), 6 * rows, ("main",))


def records(stack: ExitStack) -> Piece:
    """Pass records through a learner's record store, from append to acknowledgement."""
    from benchmarks.speed import record_store
    from learners.trajectories import Evidence

    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=_memory())))
    SqliteRecordStore.create(folder / record_store.FILE, [record_store.LEARNER])
    store = stack.enter_context(record_store.open_store(folder))
    inserts = yardsticks.Inserts(folder / "yardstick.sqlite", 32, 200)
    stack.callback(inserts.close)
    batch, number = record_store.records(32, 200), 0
    nothing = [Evidence()] * len(batch)

    def write_and_read() -> None:
        nonlocal number
        number += 1
        store.append(number, number - 1, batch, nothing)
        record_store.learn(store, number)

    return Piece(write_and_read, inserts.insert)


def table(_: ExitStack) -> Piece:
    """Tabulate a player's policy over all information states of Leduc poker; compute its exploitability."""
    from league.population.players.player import Player
    from league.theory.exact.exploitability import exploitability

    spec = make_game("leduc_poker").spec
    player = Player("random", spec, Random(), load_roles(spec), ((("random", 1.0),),) * spec.seats)
    return Piece(lambda: exploitability(player.tabulate().table), yardsticks.plain_python)


def start(_: ExitStack) -> Piece:
    """Run `league --help`, from the start of its process to its end."""
    command = [sys.executable, "-m", "league", "--help"]
    return Piece(
        lambda: subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL),
        yardsticks.start_python,
        rounds=4,
        clock=children_time,
        counts=lambda: of_a_command("--help"),
    )


def _memory() -> str | None:
    """Return a folder in memory, where writing never waits for a disk; None where there is none."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


PIECES: dict[str, Make] = {
    "arena": arena,
    "referee": referee,
    "sampler": sampler,
    "learner": learner,
    "records": records,
    "table": table,
    "start": start,
}
