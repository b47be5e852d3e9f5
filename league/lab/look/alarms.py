"""From an alarm to turns: when it rang, and the turns of kept matches nearby that it depends on. An alarm judges all
turns of an iteration, but a run keeps only some. So this lists the kept turns that matter most to what the alarm
measures, by the measure named in the answer.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from arena.records import Turn, flatten_episodes
from league.lab.look.curves import ALARMS, whole
from league.lab.look.matches import iteration_of, places
from league.lab.look.run_files import RunFiles
from league.population.storage.sampled_matches import SampledMatch
from league.training.monitors.alarms import ALARMS as RULES
from roles.replies import THINK_CLOSE

MOST_TURNS = 40
NEAR = 3  # files of kept matches, up to the alarm's iteration


class Heard(NamedTuple):
    """A trained seat's turn, with what is known of it."""

    turn: Turn
    advantage: float | None
    repeats: int  # kept turns nearby with the very same reply to the very same observation


class Measure(NamedTuple):
    """How much a turn has to do with an alarm: None for nothing."""

    words: str
    of: Callable[[Heard], float | None]


def _surprise(heard: Heard) -> float | None:
    trace = heard.turn.trace
    return None if trace is None else -math.fsum(trace.logprobs)


def _certainty(heard: Heard) -> float | None:
    trace = heard.turn.trace
    return None if trace is None or not any(trace.logprobs) else math.exp(math.fsum(trace.logprobs))


def _credit(heard: Heard) -> float | None:
    return None if heard.advantage is None else abs(heard.advantage)


def _no_credit(heard: Heard) -> float | None:
    return None if heard.advantage is None else -abs(heard.advantage)


def _length(heard: Heard) -> float | None:
    return None if heard.turn.trace is None else float(len(heard.turn.trace.reply_ids))


def _thoughts(heard: Heard) -> float | None:
    before, close, _ = heard.turn.reply.rpartition(THINK_CLOSE)
    return float(len(before)) if close else None


MEASURES = {
    "illegal": Measure("illegal replies", lambda heard: 1.0 if heard.turn.action is None else None),
    "entropy": Measure("the most certain replies", _certainty),
    "collapse": Measure("the most repeated replies", lambda heard: float(heard.repeats)),
    "echo_trap": Measure("the most repeated replies", lambda heard: float(heard.repeats)),
    "signal": Measure("the turns with the least advantage", _no_credit),
    "drift": Measure("the turns with the greatest advantage, of either sign", _credit),
    "reasoning": Measure("the longest replies", _length),
    "language": Measure("the least likely replies", _surprise),
    "mismatch": Measure("the longest thoughts before an answer", _thoughts),
    "hack": Measure("the turns with the greatest advantage, of either sign", _credit),
}
USUAL = Measure("the turns with the greatest advantage, of either sign", _credit)


def alarm(run: RunFiles, query: Mapping[str, str]) -> dict[str, Any]:
    """Return when alarm ``name`` rang, and the kept turns up to iteration ``at`` that have most to do with it."""
    name, curve = query.get("name", ""), run.metrics().get(f"{ALARMS}{query.get('name', '')}")
    times = [] if curve is None else [when for when, rings in zip(*curve, strict=True) if rings]
    at = whole(query, "at") if "at" in query else (times[-1] if times else run.done())
    measure = MEASURES.get(name, USUAL)
    rows = sorted(_measured(run, at, measure), key=lambda row: -row["measure"])
    return {
        "name": name,
        "means": (RULES[name].description if name in RULES else "") or "",
        "times": times,
        "at": at,
        "by": measure.words,
        "settings": {key: value for key, value in run.toml.get("alarms", {}).items() if key.startswith(name)},
        "turns": rows[:MOST_TURNS],
    }


def _measured(run: RunFiles, at: int, measure: Measure) -> list[dict[str, Any]]:
    files = run.sample_files()
    before = [path for path in files if iteration_of(path) <= at] or files[:1]
    samples = [sample for path in before[-NEAR:] for sample in run.samples(iteration_of(path))]
    said = Counter((turn.observation, turn.reply) for sample in samples for _, turn, _, _ in _turns(sample))
    rows = []
    for sample in samples:
        for path, turn, advantage, number in _turns(sample):
            value = measure.of(Heard(turn, advantage, said[turn.observation, turn.reply]))
            if value is not None:
                rows.append(
                    {
                        "iteration": sample.iteration,
                        "index": sample.episode.request.index,
                        "path": path,
                        "turn": number,
                        "role": turn.role,
                        "player": turn.player,
                        "reply": turn.reply[:400],
                        "action": turn.action,
                        "advantage": advantage,
                        "measure": value,
                    }
                )
    return rows


def _turns(sample: SampledMatch) -> list[tuple[str, Turn, float | None, int]]:
    """Return the turns of trained seats, with the path of their match, their advantage, and their number from 1."""
    matches = zip(places(sample.episode), flatten_episodes([sample.episode]), sample.advantages, strict=True)
    return [
        (path, turn, advantage, number)
        for path, match, advantages in matches
        for number, (turn, advantage) in enumerate(zip(match.turns, advantages, strict=True), 1)
        if match.request.trained[turn.seat]
    ]
