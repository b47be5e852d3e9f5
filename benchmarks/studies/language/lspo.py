"""Whether LSPO (Xu et al. 2025, arXiv 2502.04686) makes what a player says harder to exploit, in its latent game.

    python -m benchmarks.studies.language.lspo lspo [--seeds 0 1 2 3 4] [--keep DIR] [--workers 2] [--json]

A pocket model from nothing has learned to speak from scripts, and is then taught two rounds: Kuhn poker in sentences of
a list, Kuhn poker in free replies, and a debate in words of its own, which the game judges. Utterances are clustered by
their words and letters, or by the model's own hidden states; latent exploitability is measured in the space of each.
Of the sentences, the space is made of four for each move, and four others are held out: the share of them that falls
with their move's.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import tomli_w

from benchmarks.studies.runs import Result, load_settings, measure_runs, run_study, table_lines
from games.wrappers.worded import SENTENCES, sentences
from league import open_run


class Lesson(NamedTuple):
    """A game, and the settings that are its own."""

    game: str
    title: str
    settings: dict[str, Any]
    clusters: int


LESSONS = (
    Lesson("worded(kuhn_poker)", "Kuhn poker in sentences of a list", {}, 2),
    Lesson(
        "kuhn_poker",
        "Kuhn poker in free replies",
        {"roles": {"reply": "free", "on_illegal": "forfeit", "max_reply_tokens": 6}},
        2,
    ),
    Lesson(
        "debate(boxes=3,judge=0)",
        "a debate in words",
        {
            "cold_start": {"players": ["scripted:good", "random"], "steps": 120, "matches": 300},
            "roles": {"max_reply_tokens": 12},
        },
        4,
    ),
)
COMMON: dict[str, Any] = {
    "threads": 1,
    "iterations": 1,
    "snapshot_every": 1,
    "episodes_kept": 0,
    "optimizer": {"learning_rate": 1e-3},
    "evaluation": {"matches": 0, "anchors": []},
    "board": {"time": 0.0},
}
ROUNDS, SAMPLES, MEMBERS = 2, 128, 2
EMBEDDINGS = {"ngrams": "words and letters", "states": "hidden states"}
COLUMNS = {
    "value": "value of the latent game",
    "whole": "exploitability in the whole game",
    "paraphrases": "held-out sentences with their move's",
}


def settings_of(lesson: Lesson) -> dict[str, Any]:
    """Return the settings of a lesson's runs."""
    latent = {"clusters": lesson.clusters, "rounds": ROUNDS, "samples": SAMPLES, "members": MEMBERS}
    return COMMON | {"games": {lesson.game: {"matches": 64}}, "latent": latent} | lesson.settings


def measure(run_dir: Path) -> dict[str, Any]:
    """Return what LSPO makes of a run's player, by embedding, from the same weights each time."""
    return {name: taught(run_dir, name) for name in EMBEDDINGS}


def taught(run_dir: Path, embedding: str) -> dict[str, float]:
    """Return a run's figures before and after two rounds with an embedding."""
    from league.config.load import load_run_config
    from league.lab.latent.embedding import ngram_vectors, state_vectors
    from league.lab.latent.lspo import lspo
    from league.population.players.engines import Engines
    from league.population.storage.run_dir import Run

    run = Run(run_dir)
    run.config = load_run_config(run_dir, [f"latent.embedding={embedding}"])
    [game] = open_run(run_dir).config.games
    with Engines() as engines:
        result = lspo(run, str(run_dir), game, engines, run.config.seed)
    first, last = result.rounds[0], result.rounds[-1]
    figures = {"before": first.before, "figure": last.after, "value": last.value}
    if result.exact is not None:
        figures |= {"whole_before": result.exact[0], "whole": result.exact[1]}
    if game.startswith("worded"):
        model = result.taught["main"].policy.lm
        embed = ngram_vectors if embedding == "ngrams" else partial(state_vectors, model)
        figures["paraphrases"] = held_out_share(embed, run.config.seed)
    return figures


def held_out_share(embed: Any, seed: int) -> float:
    """Return the share of held-out sentences that fall into their move's cluster, of two.

    Which is whose is as fits the seen sentences best, so that clusters which know nothing of moves come to a half.
    """
    from league.lab.latent.space import latent_space

    ways = len(SENTENCES) // 2
    said = {move: sentences(move, len(SENTENCES)) for move in ("pass", "bet")}
    seen = [sentence for move in said.values() for sentence in move[:ways]]
    space = latent_space({"seat": seen}, {"seat": embed}, 2, seed)
    passes, bets = (space.clusters("seat", move) for move in said.values())
    own = int(passes[:ways].count(0) + bets[:ways].count(1) < ways)  # the cluster of passing
    return (passes[ways:].count(own) + bets[ways:].count(1 - own)) / (len(passes[ways:]) + len(bets[ways:]))


def measure_study(_study: str, seeds: Sequence[int], workers: int, keep: Path) -> Result:
    """Measure all runs that are not in ``keep`` yet; return a table for each game and embedding."""
    configs = {lesson.title: load_settings(tomli_w.dumps(settings_of(lesson))) for lesson in LESSONS}
    figures = measure_runs(configs, seeds, measure, keep, workers)
    tables = []
    for lesson in LESSONS:
        for name, words in EMBEDDINGS.items():
            after = [figures[lesson.title, seed][name] for seed in seeds]
            tables.append(
                {
                    "game": f"{lesson.game}: {lesson.title}, in {lesson.clusters} clusters by {words}",
                    "figure": "latent exploitability",
                    "less_is_better": True,
                    "places": 3,
                    "columns": COLUMNS,
                    "conditions": [
                        {"name": "before", "runs": [_before(run) for run in after]},
                        {"name": f"after {ROUNDS} rounds", "runs": after},
                    ],
                }
            )
    return {"study": "lspo", "seeds_used": list(seeds), "tables": tables}


def _before(after: dict[str, float]) -> dict[str, float]:
    known = {"figure": after["before"]}
    return known | ({"whole": after["whole_before"]} if "whole_before" in after else {})


def main() -> None:
    """Measure and print."""
    run_study(__doc__, ["lspo"], measure_study, table_lines)


if __name__ == "__main__":
    main()
