"""What `league lab team` says of trained teams: of the preset `team` beside one player alone, and of a relay of sums.

    python -m benchmarks.studies.verdicts STUDY [--seeds 0 1 2 3 4] [--keep DIR] [--workers 2] [--json]

`verdicts-team` trains the preset `team` with fewer matches an iteration, and one player who searches for himself
(`lookup_alone`, rule `grpo`) on as many tokens or more; `verdicts-relay` trains the team of `relay` by outcomes alone.
Then every line-up of each run plays the same deals. A row is a line-up, a run one seed; what the team earns less with
the line-up is paired by seed. With --keep, an interrupted study continues.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.studies.relay import CONDITIONS, settings_of
from benchmarks.studies.runs import Result, load_settings, measure_runs, run_study, sweep, table_lines
from league import RunConfig, load_config, open_run
from league.lab.sweeps.questions import RUN, ask_command

STUDIES = ("verdicts-team", "verdicts-relay")
DEALS = 2000
MATCHES = 128  # of the preset `team` in an iteration
ALONE = 'games = {{ "lookup_alone(people=6,relations=2)" = {{ matches = {matches} }} }}\ncredit = {{ rule = "grpo" }}\n'
ALONE_ITERATIONS = 150  # he generates fewer tokens in a match; `league lab team` takes his snapshot of equal tokens
TEAM = "the team as it is"
COLUMNS = {
    "better": "share of seeds in which the team is better",
    "level": "in which it is level",
    "tokens": "tokens of replies a match",
}
LEARNING = """
threads = 1
episodes_kept = 0
iterations = {iterations}
snapshot_every = 10
matchmaking = {{ self_play = 1.0, fictitious = 0.0, group_size = 8 }}
objective = {{ name = "ppo", clip_low = 0.9, clip_high = 9.0, kl_old = 2.0, entropy = 0.06, entropy_end = 0.003 }}
optimizer = {{ learning_rate = 1e-3, learning_rate_end = 2e-4, inner_steps = 4, minibatch_prompts = 128 }}
model = {{ hidden_size = 64, intermediate_size = 128, vocabulary = 420 }}
cold_start = {{ matches = 400 }}
evaluation = {{ exact = false, matches = 0, anchors = [] }}
"""


def alone() -> RunConfig:
    """Return the run of the one player who does the whole team's work, with the preset's settings."""
    return load_settings((ALONE + LEARNING).format(matches=MATCHES, iterations=ALONE_ITERATIONS))


def team_of_study(study: str) -> RunConfig:
    """Return the run of the team that is judged."""
    if study == "verdicts-team":
        settings = ("episodes_kept=0", "evaluation.matches=0", "evaluation.anchors=[]")
        return load_config("team", *settings, f"games.'lookup_chain(people=6,relations=2)'.matches={MATCHES}")
    return settings_of(next(condition for condition in CONDITIONS if condition.study == "relay"))


def measure(run_dir: Path, alone_of: Mapping[int, str]) -> dict[str, Any]:
    """Return what `league lab team` says of a run; ``alone_of`` has the run of the player alone by seed."""
    seed = open_run(run_dir).config.seed
    words = f"team {RUN} --stand-in random --matches {DEALS} --seed {seed}"
    return ask_command(f"{words} --alone {alone_of[seed]}" if seed in alone_of else words, run_dir)


def measure_study(study: str, seeds: Sequence[int], workers: int, keep: Path) -> Result:
    """Measure all runs of a study that are not in ``keep`` yet; return its table."""
    alone_of = {}
    if study == "verdicts-team":
        swept = sweep({"alone": alone()}, seeds, keep / "alone", workers=workers)
        alone_of = {seed: str(run.run.path.resolve()) for (_, seed), run in swept.items()}
    figures = measure_runs({study: team_of_study(study)}, seeds, partial(measure, alone_of=alone_of), keep, workers)
    reports = [figures[study, seed] for seed in seeds]
    table = {
        "game": reports[0]["game"],
        "figure": "mean return",
        "less_is_better": False,
        "columns": COLUMNS,
        "conditions": [
            {"name": name, "runs": [rows_of(report)[name] for report in reports]} for name in rows_of(reports[0])
        ],
    }
    return {
        "study": study,
        "seeds_used": list(seeds),
        "roles": [report["roles"] for report in reports],
        "tables": [table],
    }


def rows_of(report: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Return the figures of the team and of each of its line-ups."""
    team = {"figure": report["team"]["return"], "tokens": report["team"]["tokens"]}
    return {TEAM: team} | {
        one["line_up"]: {
            "figure": one["return"],
            "better": float(one["team_is"] == "better"),
            "level": float(one["team_is"] == "level"),
            "tokens": one["tokens"],
        }
        for one in report["comparisons"]
    }


def main() -> None:
    """Measure and print."""
    run_study(__doc__, STUDIES, measure_study, table_lines)


if __name__ == "__main__":
    main()
