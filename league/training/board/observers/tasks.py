"""Metrics of tasks: those that matches write (``WritesTasks``), and the pool of starts that they start from."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from statistics import fmean

from arena.records import Episode
from arena.submatches import play_again
from games.abilities import WritesTasks
from games.registry import make_game
from games.tasks.proposers.rewards import similarity
from league.config.context import RunContext
from league.training.board.observer import Observer
from league.training.learning.starts import record_starts

Metrics = dict[str, float]
MOST_COMPARED = 64  # tasks of an iteration, the first by name, whose pairs are all compared


def proposal_metrics(context: RunContext, episodes: Sequence[Episode]) -> Metrics:
    """Return, by game that writes tasks, their number, the share that was not admitted, and their diversity.

    ``diversity`` is the mean of 1 less the similarity of two admitted tasks.
    """
    metrics: Metrics = {}
    for game in context.specs:
        match = make_game(game)
        group = [episode for episode in episodes if episode.request.game == game]
        if not (group and isinstance(match, WritesTasks)):
            continue
        invalid, tasks = 0, list[str]()
        for episode in group:
            play_again(match, episode)
            invalid += len(match.invalid())
            tasks += dict.fromkeys(child.request.task for child in episode.children)
        metrics[f"{game}/tasks/written"] = float(invalid + len(tasks))
        metrics[f"{game}/tasks/invalid"] = invalid / max(invalid + len(tasks), 1)
        pairs = [*combinations(sorted(tasks)[:MOST_COMPARED], 2)]
        if pairs:
            metrics[f"{game}/tasks/diversity"] = fmean(1.0 - similarity(*pair) for pair in pairs)
    return metrics


TASKS = Observer(
    lambda record: proposal_metrics(record.context, record.episodes),
    description="tasks that matches wrote: how many, how many invalid, how different",
)
STARTS = Observer(
    lambda record: record_starts(record.context, record.starts, record.episodes, record.iteration),
    description="how much of the pool of starts is solved, after counting its matches",
)
