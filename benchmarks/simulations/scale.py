"""How much of many GPUs a barrier, a stream of matches and several splits would use: ``python -m benchmarks scale``.

A discrete-event simulation. An engine shares itself equally among the replies in flight: with n of them a step, one
token of each, takes ``step_base + step_reply * n`` seconds. A match is turns of log-normal length, one after another,
on the engine that had the fewest when it began. Under the barrier all GPUs play an iteration's matches, and when the
last has ended all learn. In a stream some GPUs play, others learn: matches begin as others end, up to ``ahead``
batches before the one that is learned next, and a batch is learned when its last match has ended. The driver's work is
done in one process, one trajectory after another. Times are read from ``service_times.toml``, which says of each
whether it was measured.

``use`` is work done over work that could have been done: tokens against those of a full engine, and a learner's time.
"""

from __future__ import annotations

import argparse
import heapq
import math
import random
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any, NamedTuple

TIMES = Path(__file__).with_name("service_times.toml")
GPUS = (8, 64, 1024)
BATCHES = 4  # simulated; the first two warm up


class Times(NamedTuple):
    """Service times, in seconds, and the shape of matches."""

    step_base: float
    step_reply: float
    most_in_flight: int
    learn_token: float
    transfer: float
    driver_trajectory: float
    turns: int
    turn_tokens: float
    spread: float
    matches_per_gpu: int

    def step(self, replies: int) -> float:
        """Return the seconds of a step with this many replies in flight."""
        return self.step_base + self.step_reply * replies

    @property
    def full_rate(self) -> float:
        """Tokens a second of an engine with as many replies as it holds."""
        return self.most_in_flight / self.step(self.most_in_flight)


def read_times(path: Path = TIMES) -> tuple[Times, dict[str, str]]:
    """Return the service times of a file, and each one's source."""
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    entries = {name: table[name] for name in Times._fields}
    return Times(**{n: e["value"] for n, e in entries.items()}), {n: e["source"] for n, e in entries.items()}


class Match(NamedTuple):
    """A match that is not played yet."""

    batch: int
    turns: tuple[float, ...]  # tokens of each


@dataclass(slots=True)
class Engine:
    """Equal sharing by virtual time: ``progress`` is the number of tokens that each reply in flight has been given."""

    progress: float = 0.0
    since: float = 0.0
    replies: list[tuple[float, int, Match, int]] = field(default_factory=list)  # heap: end in progress, order, turn
    matches: int = 0
    stamp: int = 0  # of its newest event: older ones do not count

    def advance(self, now: float, times: Times) -> None:
        """Give all replies what they get until now."""
        if self.replies:
            self.progress += (now - self.since) / times.step(len(self.replies))
        self.since = now


class Play:
    """Engines, their events, and what they have written."""

    def __init__(self, engines: int, times: Times) -> None:
        self.engines, self.times, self.now, self.tokens = [Engine() for _ in range(engines)], times, 0.0, 0.0
        self._events: list[tuple[float, int, int]] = []  # time, engine, stamp
        self._order, self._loads = 0, [(0, number) for number in range(engines)]
        self.under_way = 0  # matches

    def begin(self, match: Match) -> bool:
        """Begin a match on the engine with the fewest; False if all are full."""
        while True:
            load, number = self._loads[0]
            if load == self.engines[number].matches:
                break
            heapq.heapreplace(self._loads, (self.engines[number].matches, number))
        if load >= self.times.most_in_flight:
            return False
        self.engines[number].matches += 1
        self.under_way += 1
        self._reply(number, match, 0)
        return True

    def next_end(self) -> tuple[float, Match] | None:
        """Go on until a match ends; return when, and which. None: none is under way."""
        while self._events:
            when, number, stamp = heapq.heappop(self._events)
            engine = self.engines[number]
            if stamp != engine.stamp:
                continue
            self.now = when
            engine.advance(when, self.times)
            _, _, match, turn = heapq.heappop(engine.replies)
            self.tokens += match.turns[turn]
            if turn + 1 < len(match.turns):
                self._reply(number, match, turn + 1)
                continue
            engine.matches -= 1
            self.under_way -= 1
            heapq.heappush(self._loads, (engine.matches, number))
            self._schedule(number)
            return when, match
        return None

    def _reply(self, number: int, match: Match, turn: int) -> None:
        engine = self.engines[number]
        engine.advance(self.now, self.times)
        self._order += 1
        heapq.heappush(engine.replies, (engine.progress + match.turns[turn], self._order, match, turn))
        self._schedule(number)

    def _schedule(self, number: int) -> None:
        engine = self.engines[number]
        engine.stamp += 1
        if engine.replies:
            left = engine.replies[0][0] - engine.progress
            when = self.now + max(left, 0.0) * self.times.step(len(engine.replies))
            heapq.heappush(self._events, (when, number, engine.stamp))


class Outcome(NamedTuple):
    """What a scheme came to."""

    seconds: float  # of an iteration
    playing: float  # use of the GPUs that play
    use: float  # of all GPUs


def drawn(times: Times, batch: int, matches: int, rng: random.Random) -> list[Match]:
    """Return the matches of a batch."""
    mu = math.log(times.turn_tokens) - times.spread**2 / 2
    lengths = (tuple(rng.lognormvariate(mu, times.spread) for _ in range(times.turns)) for _ in range(matches))
    return [Match(batch, turns) for turns in lengths]


def barrier(times: Times, gpus: int, matches: int, seed: int = 0) -> Outcome:
    """Return an iteration of which all GPUs play the matches, and then learn."""
    rng, play = random.Random(seed), Play(gpus, times)
    for batch in range(2):
        waiting = drawn(times, batch, matches, rng)
        while waiting or play.under_way:
            while waiting and play.begin(waiting[-1]):
                waiting.pop()
            play.next_end()
    played, tokens = play.now / 2, play.tokens / 2
    learning = tokens * times.learn_token / gpus
    seconds = played + matches * times.driver_trajectory + learning + times.transfer
    worth = tokens / times.full_rate / gpus
    return Outcome(seconds, worth / played, (worth + learning) / seconds)


def stream(times: Times, gpus: int, matches: int, learners: int, ahead: int = 3, seed: int = 0) -> Outcome:
    """Return an iteration of a stream in which this many GPUs learn and the others play."""
    rng, play = random.Random(seed), Play(gpus - learners, times)
    waiting: list[Match] = []
    drawn_up_to, left, tokens = 0, dict[int, int](), dict[int, float]()
    learned, free, driver_free, learned_at, busy, marks = 0, 0.0, 0.0, 0.0, 0.0, list[tuple[float, float, float]]()
    while learned < BATCHES:
        while drawn_up_to <= learned + ahead:
            batch = drawn(times, drawn_up_to, matches, rng)
            left[drawn_up_to], tokens[drawn_up_to] = matches, sum(sum(match.turns) for match in batch)
            waiting = batch[::-1] + waiting
            drawn_up_to += 1
        while waiting and play.begin(waiting[-1]):
            waiting.pop()
        ended = play.next_end() if play.under_way else None
        if ended is not None:
            when, match = ended
            left[match.batch] -= 1
            driver_free = max(driver_free, when) + times.driver_trajectory
        due = not left[learned]
        if due and not free:
            busy += (learning := tokens[learned] * times.learn_token / learners)
            free = max(play.now, driver_free, learned_at) + learning + times.transfer
        if due and (play.now >= free or ended is None):
            play.now = max(play.now, free)
            learned, learned_at, free = learned + 1, free, 0.0
            marks.append((learned_at, play.tokens, busy))
    (start, tokens_before, busy_before), (end, tokens_after, busy_after) = marks[1], marks[-1]
    seconds, worth = end - start, (tokens_after - tokens_before) / times.full_rate
    use = (worth + (busy_after - busy_before) * learners) / (seconds * gpus)
    return Outcome(seconds / (len(marks) - 2), worth / seconds / (gpus - learners), use)


def schemes(gpus: int) -> dict[str, Callable[..., Outcome]]:
    """Return what is compared, by name."""
    splits = [(gpus // 4, 3), (3 * gpus // 8, 1), (3 * gpus // 8, 3)]
    return {"barrier": barrier} | {
        f"stream {gpus - part} + {part}, {ahead} ahead": partial(stream, learners=part, ahead=ahead)
        for part, ahead in splits
    }


def measure(words: Sequence[str]) -> dict[str, Any]:
    """Print the tables, and return them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks scale", description=__doc__.partition("\n")[0])
    parser.add_argument("--times", type=Path, default=TIMES, help="file of service times")
    parser.add_argument("--gpus", type=int, nargs="+", default=GPUS)
    parser.add_argument("--matches", type=int, help="of an iteration; unless given, matches_per_gpu for each GPU")
    parser.add_argument("--check", action="store_true", help="compare with a real run of two engines on this machine")
    arguments = parser.parse_args(words)
    if arguments.check:
        return checked()
    times, sources = read_times(arguments.times)
    for name, source in sources.items():
        print(f"{name} = {getattr(times, name):g}: {source}")
    rows = []
    print(f"\n{'GPUs':>6}  {'scheme':<26}{'s an iteration':>15}{'use, playing':>14}{'use of all':>12}")
    for gpus in arguments.gpus:
        for name, scheme in schemes(gpus).items():
            outcome = scheme(times, gpus, arguments.matches or times.matches_per_gpu * gpus)
            rows.append((gpus, name, *outcome))
            seconds, playing, use = outcome
            print(f"{gpus:>6,}  {name:<26}{seconds:>15.1f}{playing:>14.2f}{use:>12.2f}", flush=True)
    return {"rows": rows, "sources": sources}


LENGTHS, REPLIES, TRIALS = (40, 1.0), 48, (1, 2, 4, 8, 16, 32, 48)  # of the real run: steps of a match, and matches
ROUNDS = 9  # of the real run, each with step times of its own


def checked(seeds: Sequence[int] = (0, 1)) -> dict[str, Any]:
    """Return how a real run of two engines compares with the simulation: a small model, a process each.

    Both play the same matches: all of a batch before the next (``barrier``), and as others end (``stream``). Seconds
    are of the engine's own processor, so that time for which another program had it does not count. But what shares
    caches and a core's units with it makes every step slower while it runs: so the step times that a play is simulated
    with are measured just before and just after it, and the ratio is the median of ``ROUNDS`` plays.
    """
    with get_context("spawn").Pool(len(seeds)) as pool:
        rows = pool.map(_engine_run, seeds)
    for row in rows:
        for name in ("barrier", "stream"):
            measured, ratio = row[name], row[f"{name} ratio"]
            print(f"{name}: measured {measured:.3f} s, simulated {ratio:.2f} times that")
    return {"rows": rows}


def _engine_run(seed: int) -> Mapping[str, float]:
    """Run one engine; return medians: seconds of both schemes, and what the simulation says as a multiple of them."""
    step, rng = _model_step(), random.Random(seed)
    lengths = [max(1, round(rng.lognormvariate(math.log(LENGTHS[0]) - 0.5, LENGTHS[1]))) for _ in range(2 * REPLIES)]
    plays = {"barrier": [lengths[:REPLIES], lengths[REPLIES:]], "stream": [lengths]}
    measured, ratios = ({name: list[float]() for name in plays} for _ in range(2))
    before = _trials(step)
    for _ in range(ROUNDS):
        for name, parts in plays.items():
            seconds = sum(_seconds(partial(_play, part, REPLIES, step)) for part in parts)
            after = _trials(step)
            times = Times(*_fit(before + after), REPLIES, 0.0, 0.0, 0.0, 1, 1.0, 0.0, REPLIES)
            measured[name].append(seconds)
            ratios[name].append(sum(_simulated(part, times) for part in parts) / seconds)
            before = after
    return {name: median(values) for name, values in measured.items()} | {
        f"{name} ratio": median(values) for name, values in ratios.items()
    }


def _model_step() -> Callable[[int], None]:
    """Return a step of a small model with this many replies."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.set_num_threads(1)
    shape: dict[str, Any] = {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
    }
    model = Qwen3ForCausalLM(Qwen3Config(vocab_size=256, num_key_value_heads=1, head_dim=32, **shape)).eval()

    def step(replies: int) -> None:
        with torch.inference_mode():
            model(input_ids=torch.ones(replies, 8, dtype=torch.long), use_cache=False)

    for replies in TRIALS:
        step(replies)
    return step


def _trials(step: Callable[[int], None]) -> list[tuple[int, float]]:
    """Return the seconds of a step by number of replies, measured a few times in turn."""
    return [(n, _seconds(partial(step, n))) for _ in range(5) for n in TRIALS]


def _seconds(work: Callable[[], object]) -> float:
    """Return the processor's seconds of a piece of work."""
    start = process_time()
    work()
    return process_time() - start


def _fit(points: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """Return the intercept and slope of the line through the medians by number that is nearest relative to them."""
    medians = [(n, median([s for other, s in points if other == n])) for n in sorted({n for n, _ in points})]
    weights = [1.0 / seconds**2 for _, seconds in medians]
    total = sum(weights)
    x = sum(w * n for w, (n, _) in zip(weights, medians, strict=True)) / total
    y = sum(w * s for w, (_, s) in zip(weights, medians, strict=True)) / total
    slope = sum(w * (n - x) * (s - y) for w, (n, s) in zip(weights, medians, strict=True))
    slope /= sum(w * (n - x) ** 2 for w, (n, _) in zip(weights, medians, strict=True))
    return max(y - slope * x, 1e-9), slope


def _play(lengths: Sequence[int], most: int, step: Callable[[int], None]) -> None:
    """Write replies of these lengths, step by step, at most this many in flight."""
    waiting, left = list(lengths[::-1]), list[int]()
    while waiting or left:
        while waiting and len(left) < most:
            left.append(waiting.pop())
        step(len(left))
        left = [steps - 1 for steps in left if steps > 1]


def _simulated(lengths: Sequence[int], times: Times) -> float:
    play, waiting = Play(1, times), [Match(0, (float(length),)) for length in lengths[::-1]]
    while waiting or play.under_way:
        while waiting and play.begin(waiting[-1]):
            waiting.pop()
        play.next_end()
    return play.now
