"""What is measured of a run in a game of tasks: shares of held-out tasks that are solved, and where its frontier is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from games.abilities import TakesTasks
from games.common.seeds import derive_seed
from games.registry import make_game
from league import match
from league.training.board.metrics_log import read_metrics


def shares_by_size(run: Path, game: str, sizes: Sequence[int], unit: str, matches: int, seed: int) -> dict[str, float]:
    """Return the shares of held-out tasks that a run's last snapshot solves, by size and over all sizes alike."""
    right: dict[int, list[float]] = {size: [] for size in sizes}
    held_out = derive_seed(seed, "held out")
    for episode in match(run, "scripted:poor", game=game, matches=2 * matches, seed=held_out).episodes:
        if episode.request.players[0] != "scripted:poor":
            right[_size(game, episode.request.deal_seed)].append(episode.returns[0])
    by_size = {f"{size} {unit}": fmean(values) for size, values in right.items()}
    return {"figure": fmean(by_size.values()), **by_size}


def figures_of_log(run_dir: Path, game: str) -> dict[str, float]:
    """Return where a run's frontier was at its end, the share of groups that taught nothing, and the tokens it took."""
    lines = [line for line in read_metrics(run_dir) if line["iteration"]]
    flat = fmean([line[f"{game}/flat_groups/solver"] for line in lines if f"{game}/flat_groups/solver" in line])
    frontier = {name: lines[-1].get(f"{game}/starts/{name}", 0.0) for name in ("solved", "out_of_reach", "frontier")}
    return {**frontier, "flat": flat, "tokens": sum(line["reply_tokens"] for line in lines)}


def invalid_at_end(run_dir: Path, game: str) -> float:
    """Return the share of tasks that were not admitted in a run's last ten iterations."""
    return _at_end(run_dir, f"{game}/tasks/invalid")


def mended_at_end(run_dir: Path, game: str) -> float:
    """Return the share of planted bugs that were mended in a run's last ten iterations."""
    return _at_end(run_dir, f"{game}/return/solver")


def _at_end(run_dir: Path, metric: str) -> float:
    return fmean([line[metric] for line in [*read_metrics(run_dir)][-10:] if metric in line])


def _size(name: str, deal_seed: int) -> int:
    game = make_game(name)
    assert isinstance(game, TakesTasks)
    game.reset(deal_seed)
    return game.task_size()
