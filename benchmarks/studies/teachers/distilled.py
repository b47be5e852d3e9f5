"""A teacher's whole distribution at the student's own turns, beside imitation of its matches, at equal matches.

    python -m benchmarks.studies.teachers.distilled STUDY [--seeds 0 1 2 3 4] [--keep DIR] [--workers 2] [--json]

A model from nothing is to play as ``equilibrium``, or as the mixture of a run of Leduc poker. It either learns from as
many matches of the teacher with itself as the others play (``imitation.weight = 1``, ``imitation.replies`` as many as
an iteration has turns), or plays them itself and is told what the teacher would do (``objective.distill``); returns
count for nothing. All take the same optimiser steps. KL is that of the model to the teacher with 1 % uniform play, at
every information state exactly: its mean weighs states by how likely the teacher's own replies lead there.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.studies.runs import Result, load_settings, measure_runs, run_study, sweep, table_lines

if TYPE_CHECKING:
    from league import RunConfig

UNIFORM = 0.01  # of teacher.uniform, by its default
COMING = 0.01  # a state counts among those that the teacher comes to if its own replies lead there so often
MODEL = """
threads = 1
episodes_kept = 0
iterations = {iterations}
snapshot_every = {iterations}
games."{game}".matches = {matches}
evaluation.matches = 0
model = {{ layers = 1, hidden_size = 64, intermediate_size = 128 }}
optimizer = {{ learning_rate = {rate}, learning_rate_end = 2e-4 }}
matchmaking = {{ self_play = 1.0, fictitious = 0.0 }}
"""
ALONE = """
objective = {{ policy_gradient = 0.0, entropy = 0.0, kl_old = 0.0, distill = {distill} }}
"""
DIVERGENCES = ("reverse", "forward", "jensen_shannon")
COLUMNS = {
    "kl": "mean KL, nats",
    "kl_worst": "largest KL where the teacher comes",
    "near": "share of those states within 0.01 nats",
    "of_teacher": "exploitability of the teacher",
    "seconds": "seconds",
}


class Lesson(NamedTuple):
    """Who teaches what, and how long."""

    title: str
    game: str
    teacher: str  # MIXTURE: that of a run which is trained first
    iterations: int
    matches: int
    turns: int  # to choose at in an iteration's matches, about
    conditions: tuple[str, ...]


MIXTURE = "mixture"
LESSONS = {
    "taught-kuhn": Lesson(
        "Kuhn poker, equilibrium", "kuhn_poker", "equilibrium", 40, 128, 300, ("imitation", *DIVERGENCES)
    ),
    "taught-leduc": Lesson(
        "Leduc poker, equilibrium", "leduc_poker", "equilibrium", 160, 256, 1100, ("imitation", *DIVERGENCES[:2])
    ),
    "taught-mixture": Lesson(
        "Leduc poker, a run's mixture", "leduc_poker", MIXTURE, 40, 256, 1100, ("imitation", *DIVERGENCES[:2])
    ),
}


def teaching_run() -> RunConfig:
    """Return the run of Leduc poker whose mixture teaches."""
    learning = "objective = { clip_low = 0.9, clip_high = 9.0, kl_old = 2.0, entropy = 0.15, entropy_end = 0.04 }\n"
    toml = MODEL.format(iterations=60, game="leduc_poker", matches=256, rate=1e-3) + learning
    return load_settings(toml.replace("snapshot_every = 60", "snapshot_every = 15"))


def configs_of(lesson: Lesson, teacher: str, matches: Path) -> dict[str, RunConfig]:
    """Return the configurations that are compared, by name; ``matches`` are those of the teacher with itself."""
    common = MODEL.format(iterations=lesson.iterations, game=lesson.game, matches=lesson.matches, rate=2e-3)
    configs = {}
    for condition in lesson.conditions:
        if condition == "imitation":  # the teacher's name is for ``measure`` alone
            imitation = f"imitation = {{ weight = 1.0, matches = '{matches}', replies = {lesson.turns} }}\n"
            toml = common + ALONE.format(distill=0.0) + f"teacher = {{ player = '{teacher}' }}\n" + imitation
        else:
            teaching = f"teacher = {{ player = '{teacher}', divergence = '{condition}' }}\n"
            toml = common + ALONE.format(distill=1.0) + teaching
        configs[f"{lesson.title}: {condition}"] = load_settings(toml)
    return configs


def record_matches(lesson: Lesson, teacher: str, seed: int, path: Path) -> None:
    """Write the teacher's matches with itself, unless they are there: as many as a run plays."""
    import league
    from arena.replays import save_episodes

    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        number = lesson.iterations * lesson.matches
        save_episodes(path, league.match(teacher, teacher, game=lesson.game, matches=number, seed=seed).episodes)


def measure(run_dir: Path) -> dict[str, Any]:
    """Return a run's KL to its teacher at the information states of its game, and what both can be exploited for."""
    from games.registry import make_game
    from league import open_run
    from league.population.players.engines import Engines
    from league.population.players.player import resolve
    from league.theory.exact.exploitability import exact_form, exploitability
    from league.theory.exact.sequence_form import SequenceForm

    config = open_run(run_dir).config
    [game], [teacher] = config.games, {config.teacher.player, *config.teacher.players.values()} - {""}
    spec, form = make_game(game).spec, exact_form(game)
    assert isinstance(form, SequenceForm), "games of cards have sequences"
    with Engines() as engines:
        own, taught = (resolve(name, spec, engines).tabulate().table for name in (str(run_dir), teacher))
    plan = form.plan([taught.probabilities[key] for key in form.keys])
    weights = [float(plan[parent]) for parent in form.parent]  # how likely the teacher's own replies lead there
    kls = [_kl(own.probabilities[key], taught.probabilities[key]) for key in form.keys]
    coming = [kl for kl, weight in zip(kls, weights, strict=True) if weight >= COMING]
    figures: dict[str, Any] = {
        "figure": exploitability(own),
        "kl": sum(kl * weight for kl, weight in zip(kls, weights, strict=True)) / sum(weights),
        "kl_worst": max(coming),
        "near": sum(kl < 0.01 for kl in coming) / len(coming),
        "of_teacher": exploitability(taught),
    }
    if len(kls) <= 12:
        figures["states"] = {f"{seat} {state}": kl for (seat, state), kl in zip(form.keys, kls, strict=True)}
    return figures


def _kl(student: Sequence[float], teacher: Sequence[float]) -> float:
    """Return KL(student | teacher with a share of uniform play), in nats."""
    mixed = [(1.0 - UNIFORM) * q + UNIFORM / len(teacher) for q in teacher]
    return sum(p * log(p / q) for p, q in zip(student, mixed, strict=True) if p > 0.0)


def measure_study(study: str, seeds: Sequence[int], workers: int, keep: Path) -> Result:
    """Measure all runs that are not in ``keep`` yet; return the lesson's table."""
    lesson, runs = LESSONS[study], dict[str, list[dict[str, Any]]]()
    for seed in seeds:
        teacher, matches = lesson.teacher, (keep / f"matches-{seed}.jsonl").resolve()
        if teacher == MIXTURE:
            [teaching] = sweep({"teacher": teaching_run()}, [seed], keep / f"teacher-{seed}", workers=workers).values()
            teacher = f"{teaching.run.path}@mixture"
        record_matches(lesson, teacher, seed, matches)
        figures = measure_runs(configs_of(lesson, teacher, matches), [seed], measure, keep / f"seed-{seed}", workers)
        for (name, _), figure in figures.items():
            runs.setdefault(name, []).append(figure)
    table = {
        "game": lesson.title,
        "figure": "exploitability",
        "less_is_better": True,
        "places": 3,
        "columns": COLUMNS,
        "conditions": [{"name": name, "runs": runs[f"{lesson.title}: {name}"]} for name in lesson.conditions],
    }
    return {"study": study, "seeds_used": list(seeds), "tables": [table]}


def main() -> None:
    """Measure and print."""
    run_study(__doc__, list(LESSONS), measure_study, table_lines)


if __name__ == "__main__":
    main()
