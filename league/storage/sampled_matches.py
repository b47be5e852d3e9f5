"""Some matches of each iteration that froze a snapshot, kept to be read: the first, best, worst and most surprising.

``episodes/iteration-000010.jsonl`` holds the matches as ``arena.replays`` writes them, and beside it
``iteration-000010.credit.json`` why each was kept and the advantage of each trained turn. A resumed run writes both
again, with the same content.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from arena.records import Episode, flatten_episodes
from arena.replays import load_episodes, save_episodes
from games.common.errors import UsageError
from games.common.files import atomic_write
from learners.trajectories import Trajectory

EPISODES_FOLDER = "episodes"  # of a run
FIRST, BEST, WORST, SURPRISING = "first", "best", "worst", "most surprising"

TurnAdvantages = tuple[float | None, ...]  # by turn of a match; None: its seat does not learn, or it was not computed


class SampledMatch(NamedTuple):
    """A match that was kept, with the reasons for it."""

    episode: Episode
    iteration: int | None  # of the run; None: not of a run
    kept_as: tuple[str, ...]  # of FIRST, BEST, WORST and SURPRISING; none: to fill up
    advantages: tuple[TurnAdvantages, ...]  # of the match, then of its submatches as ``flatten_episodes`` orders them


def sample_matches(
    episodes: Sequence[Episode],
    trajectories: Sequence[Trajectory],
    advantages: Sequence[Sequence[float]],
    iteration: int,
    per_game: int,
) -> list[SampledMatch]:
    """Return at most ``per_game`` matches of each game: the named ones before others, which are the next in order.

    The best match has the greatest return of a trained seat; of equal ones, the greatest mean over its trained seats,
    so that a win over another player precedes a win over itself. The worst is the opposite, and the most surprising
    has the turn with the largest absolute advantage. ``episodes`` are all of the iteration, which ``trajectories`` were
    made from; these and their advantages may be empty.
    """
    by_game: dict[str, list[_Credited]] = {}
    for episode, turns in zip(episodes, _credit(episodes, trajectories, advantages), strict=True):
        by_game.setdefault(episode.request.game, []).append(_Credited(episode, turns))
    return [sample for matches in by_game.values() for sample in _sample_game(matches, iteration, per_game)]


def _sample_game(matches: Sequence[_Credited], iteration: int, most: int) -> list[SampledMatch]:
    """Return at most ``most`` matches of one game, in their order."""
    reasons: dict[int, list[str]] = {}  # by position, in the order of choosing
    for reason, measure in _MEASURES.items():
        measured = [(value, -place) for place, match in enumerate(matches) if (value := measure(match)) is not None]
        if measured:
            reasons.setdefault(-max(measured)[1], []).append(reason)
    others = [place for place in range(len(matches)) if place not in reasons]
    return [
        SampledMatch(matches[place].episode, iteration, tuple(reasons.get(place, ())), matches[place].advantages)
        for place in sorted([*reasons, *others][:most])
    ]


def save_samples(run_dir: Path, iteration: int, samples: Sequence[SampledMatch]) -> None:
    """Write an iteration's kept matches, the file of credit first: a kill in between leaves none without it."""
    path = run_dir / EPISODES_FOLDER / f"iteration-{iteration:06d}.jsonl"
    notes = [{"kept_as": sample.kept_as, "advantages": sample.advantages} for sample in samples]
    atomic_write(_credit_file(path), json.dumps({"iteration": iteration, "matches": notes}))
    save_episodes(path, [sample.episode for sample in samples])


def sample_files(run_dir: Path) -> list[Path]:
    """Return the files of kept matches of a run, the oldest first."""
    return sorted((run_dir / EPISODES_FOLDER).glob("iteration-*.jsonl"))


def load_samples(path: Path) -> list[SampledMatch]:
    """Return the matches of a file that ``save_samples`` wrote, or of any file of episodes, which has no credit.

    Raises UsageError for a file that is missing or damaged.
    """
    episodes = load_episodes(path)
    credit = _credit_file(path)
    if not credit.is_file():
        return [SampledMatch(episode, None, (), _none_of(episode)) for episode in episodes]
    try:
        record = json.loads(credit.read_text(encoding="utf-8"))
        pairs = zip(episodes, record["matches"], strict=True)
        return [_sample(episode, record["iteration"], note) for episode, note in pairs]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{credit} does not go with {path.name} ({type(error).__name__}: {error}). Delete it to read the matches "
            "without their advantages."
        ) from error


def _sample(episode: Episode, iteration: int, note: dict[str, Any]) -> SampledMatch:
    """Return a match with its note. Raises ValueError if the note is of another match."""
    advantages = tuple(map(tuple, note["advantages"]))
    lengths = [len(turns) for turns in advantages]
    if lengths != [len(match.turns) for match in flatten_episodes([episode])]:
        raise ValueError(f"match {episode.request.index} has other numbers of turns than {lengths}")
    return SampledMatch(episode, int(iteration), tuple(map(str, note["kept_as"])), advantages)


def _credit_file(path: Path) -> Path:
    return path.with_suffix(".credit.json")


def _none_of(episode: Episode) -> tuple[TurnAdvantages, ...]:
    return tuple((None,) * len(match.turns) for match in flatten_episodes([episode]))


class _Credited(NamedTuple):
    episode: Episode
    advantages: tuple[TurnAdvantages, ...]


def _credit(
    episodes: Sequence[Episode], trajectories: Sequence[Trajectory], advantages: Sequence[Sequence[float]]
) -> list[tuple[TurnAdvantages, ...]]:
    """Return the advantages of each episode's turns and of its submatches', which are numbered within the batch."""
    of_seat = {
        (trajectory.match, trajectory.seat): advantages_K
        for trajectory, advantages_K in zip(trajectories, advantages, strict=True)
    }
    credit: list[list[TurnAdvantages]] = []
    for match in flatten_episodes(episodes):
        if match.request.parent is None:
            credit.append([])
        seats = range(len(match.returns))
        left = [iter(of_seat.get((match.request.index, seat), ())) for seat in seats]
        credit[-1].append(tuple(next(left[turn.seat], None) for turn in match.turns))
    return [tuple(turns) for turns in credit]


def _trained_returns(match: _Credited) -> list[float]:
    episode = match.episode
    return [value for value, trained in zip(episode.returns, episode.request.trained, strict=True) if trained]


def _best(match: _Credited) -> tuple[float, float] | None:
    returns = _trained_returns(match)
    return (max(returns), sum(returns) / len(returns)) if returns else None


def _worst(match: _Credited) -> tuple[float, float] | None:
    returns = _trained_returns(match)
    return (-min(returns), -sum(returns) / len(returns)) if returns else None


def _surprise(match: _Credited) -> tuple[float, float] | None:
    sizes = [abs(value) for turns in match.advantages for value in turns if value is not None]
    return (max(sizes), 0.0) if sizes else None


# The match of which this is greatest is kept; None: it cannot be said of a match.
_MEASURES: dict[str, Callable[[_Credited], tuple[float, float] | None]] = {
    FIRST: lambda _: (0.0, 0.0),
    BEST: _best,
    WORST: _worst,
    SURPRISING: _surprise,
}
