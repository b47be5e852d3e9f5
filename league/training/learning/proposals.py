"""The tasks that an iteration's matches wrote: stored as starts, and their metrics on the board."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import fmean

from arena.records import Episode, Start, flatten_episodes
from games.abilities import TakesTasks
from games.registry import make_game
from league.training.starts.measured import StoredStart

Metrics = dict[str, float]
MOST_COMPARED = 64  # tasks of an iteration, the first by name, whose pairs are all compared


def proposed(episodes: Sequence[Episode], iteration: int) -> list[StoredStart]:
    """Return the tasks that were attempted in matches that wrote them, each once; its author is the writing player."""
    by_name: dict[str, StoredStart] = {}
    members = flatten_episodes(episodes)
    by_index = {episode.request.index: episode.request for episode in members}
    for request in (episode.request for episode in members):
        if request.parent is not None and request.start and request.start not in by_name:
            writer, start = by_index[request.parent], Start(request.game, request.deal_seed, request.task)
            size = task_size(start)
            by_name[start.name] = StoredStart(start, size, writer.start, writer.players[0], iteration)
    return list(by_name.values())


def attempts(episodes: Sequence[Episode]) -> Iterator[Episode]:
    """Yield the matches that started from starts: an iteration's own, and the attempts that they opened."""
    return (episode for episode in flatten_episodes(episodes) if episode.request.start)


def task_size(start: Start) -> int:
    """Return the size of a start's task, or the most turns of its game if the game has no tasks."""
    game = make_game(start.game)
    game.reset(start.seed)
    if not isinstance(game, TakesTasks):
        return game.spec.max_turns
    if start.task:
        game.start_task(start.task)
    return game.task_size()


def author_metrics(game: str, starts: Sequence[StoredStart]) -> Metrics:
    """Return each author's share of a game's starts, and the solve rate of its starts that were played."""
    metrics, counts = Metrics(), Counter(start.author for start in starts)
    for author, count in sorted(counts.items()) if set(counts) != {"seed"} else ():
        metrics[f"{game}/starts/by/{author}"] = count / len(starts)
        if rates := [start.rate for start in starts if start.author == author and start.plays]:
            metrics[f"{game}/starts/solved_of/{author}"] = fmean(rates)
    return metrics
