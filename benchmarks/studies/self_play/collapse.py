"""How plain self-play collapses, and what keeps it from that: past selves, exploiters, a magnet.

    python -m benchmarks.studies.self_play.collapse STUDY [--seeds 0 1 2 3 4] [--keep DIR] [--workers 2] [--json]

Every condition trains the same small model from nothing on the returns of equally many matches. The first meets its
newest self alone, with no term that keeps it from going all the way after each advantage. All figures of a snapshot are
exact, over every position of the game: its score against a fixed pool (a uniform player and a perfect one, half of the
matches each, in all seats) and its exploitability. With --keep, an interrupted study continues.

    python -m benchmarks.studies.self_play.collapse --draw

draws the stored results as docs/research/collapse.png.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.report.curves import draw_over_seeds, save_with_legend
from benchmarks.report.page import RESULTS
from benchmarks.report.provenance import ROOT
from benchmarks.studies.runs import SMOLLM2, Result, run_study
from benchmarks.studies.self_play.populations import Study, curve_summary, curves_of, drawn_by
from league.theory.exact.exploitability import PolicyTable
from league.theory.exact.position_graph import PositionGraph

PICTURE = ROOT / "docs" / "research" / "collapse.png"
FIGURES = {
    "score": "score against a fixed pool",
    "exploitability": "exploitability",
    "entropy": "entropy of play, nats",
}
PLAIN = (
    "optimizer.learning_rate=1e-3",
    "optimizer.inner_steps=4",
    "objective.kl_old=0.5",
    "objective.entropy=0",
)
MAGNET = ("objective.magnet=0.15", "objective.magnet_every=5", "objective.magnet_uniform=0.1")
CONDITIONS = (
    drawn_by("newest self alone", self_play=1.0),
    drawn_by("past selves", "matchmaking.opponents=2", self_play=0.5, fictitious=0.5),
    drawn_by(
        "past selves and exploiters",
        "matchmaking.opponents=2",
        "policies.probe.league_role=main_exploiter",
        "exploiters.share=0.2",
        "exploiters.freeze_from=10",
        "exploiters.freeze_after=20",
        self_play=0.5,
        pfsp=0.35,
        verification=0.15,
    ),
    drawn_by("newest self and a magnet", *MAGNET, self_play=1.0),
    drawn_by("past selves and a magnet", "matchmaking.opponents=2", *MAGNET, self_play=0.5, fictitious=0.5),
)
STUDIES = {
    "collapse-kuhn": Study(
        {"kuhn_poker": "matches = 512"},
        ("iterations=200", "snapshot_every=20", "evaluation.exact=false", *PLAIN),
        FIGURES,
        CONDITIONS,
        compared=False,
    ),
    "collapse-tic-tac-toe": Study(
        {"tic_tac_toe": "matches = 128"},
        ("iterations=200", "snapshot_every=20", "evaluation.exact=false", *PLAIN),
        FIGURES,
        CONDITIONS,
        compared=False,
    ),
    # of a pretrained model, which wants a GPU: a run takes 20 minutes of a core
    "collapse-smol": Study(
        {"kuhn_poker": "matches = 512"},
        (
            "iterations=150",
            "snapshot_every=15",
            "evaluation.exact=false",
            *PLAIN,
            *SMOLLM2,
            "loaded_snapshots=16",
            "checkpoint_every=150",
        ),
        FIGURES,
        (CONDITIONS[0], CONDITIONS[1], CONDITIONS[4]),
        compared=False,
    ),
}


def perfect_play(graph: PositionGraph) -> PolicyTable:
    """Return the play of a zero-sum board game of two that draws among all moves that keep the position's value."""
    rows = {}
    for key, values in zip(graph.keys, graph.action_values(), strict=True):
        best = [float(value == max(values)) for value in values]
        rows[key] = tuple(share / sum(best) for share in best)
    return PolicyTable(graph.game, rows)


def measure(run_dir: Path) -> dict[str, Any]:
    """Return a run's curves over its main snapshots."""
    import league
    from games.registry import make_game
    from league.population.players.engines import Engines
    from league.population.players.player import resolve
    from league.theory.exact.exploitability import exact_form, exploitability, head_to_head, uniform_table

    run = league.open_run(run_dir)
    [game] = run.config.games
    spec = make_game(game).spec
    curves: dict[str, Any] = {"iterations": [], **{name: [] for name in FIGURES}}
    entropy = {line["iteration"]: line.get(f"main/entropy/{game}") for line in run.iterations()}
    with Engines() as engines:

        def table_of(player: str) -> PolicyTable:
            return resolve(player, spec, engines).tabulate().table

        form = exact_form(game)
        perfect = perfect_play(form) if isinstance(form, PositionGraph) else table_of("equilibrium")
        pool = [uniform_table(game), perfect]
        for snapshot in run.snapshots("main"):
            table = table_of(f"{run_dir}@{snapshot.id}")
            returns = [head_to_head([table, other])[0] for other in pool]
            returns += [head_to_head([other, table])[1] for other in pool]
            curves["iterations"].append(snapshot.step)
            curves["score"].append((fmean(returns) - spec.min_return) / (spec.max_return - spec.min_return))
            curves["exploitability"].append(exploitability(table))
            curves["entropy"].append(entropy.get(snapshot.step) or entropy[1])
    return curves


def measure_study(name: str, seeds: Sequence[int], workers: int, keep: Path) -> Result:
    """Measure all runs of a study that are not in ``keep`` yet; return the curves by condition."""
    return curves_of(name, STUDIES[name], measure, seeds, (workers, keep))


def draw(path: Path = PICTURE) -> None:
    """Draw the stored results, a row for each game, a column for each figure: means and 95 % intervals over seeds."""
    from league.training.board.figures.canvas import COLOURS, new_figure, tidy

    curves = [
        json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))["result"]["curves"][0]
        for name in STUDIES
        if (RESULTS / f"{name}.json").is_file()
    ]
    figure = new_figure("Plain self-play, and what is put beside it", height=0.8 + 2.0 * len(curves))
    figure.set_figwidth(9.0)
    height = figure.get_figheight()
    for row, curve in enumerate(curves):
        for column, (name, label) in enumerate(FIGURES.items()):
            bottom = (0.62 + 2.0 * (len(curves) - 1 - row)) / height
            axes = figure.add_axes((0.05 + 0.325 * column, bottom, 0.27, 1.35 / height))
            tidy(axes, f"{curve['game']}: {label}")
            for colour, condition in zip(COLOURS, curve["conditions"], strict=False):
                runs = condition["runs"]
                steps, by_step = runs[0]["iterations"], list(zip(*[run[name] for run in runs], strict=True))
                draw_over_seeds(axes, steps, by_step, colour, condition["name"])
            axes.set_ylim(bottom=0.0)
    save_with_legend(figure, path)


def main() -> None:
    """Measure and print, or draw."""
    run_study(__doc__, list(STUDIES), measure_study, curve_summary, draw)


if __name__ == "__main__":
    main()
