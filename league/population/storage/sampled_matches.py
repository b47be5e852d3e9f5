"""Sampled matches of each iteration that froze a snapshot, for reading: first, best, worst, most surprising, and more.

``episodes/iteration-000010.jsonl`` holds the matches as ``arena.replays`` writes them, and beside it
``iteration-000010.credit.json`` why each was kept and the advantage of each trained turn. A resumed run writes both
again, with the same content.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from itertools import count, islice
from pathlib import Path
from typing import Any, NamedTuple

from arena.records import Episode, Turn, flatten_episodes
from arena.replays import episodes_text, load_episodes, save_episodes
from games.common.errors import UsageError
from games.common.files import atomic_write, parse_json
from learners.selection import SELECTION
from learners.trajectories import Trajectory, TurnSelection

EPISODES_FOLDER = "episodes"  # of a run
FIRST, BEST, WORST, SURPRISING = "first", "best", "worst", "most surprising"
REFUSED, STALE, LONGEST, RANDOM = "most refused", "most stale", "longest", "random"

TurnAdvantages = tuple[float | None, ...]  # by turn of a match; None: its seat does not learn, or it was not computed


class SampledMatch(NamedTuple):
    """A match that was kept, with the reasons for it."""

    episode: Episode
    iteration: int | None  # of the run; None: not of a run
    kept_as: tuple[str, ...]  # of the eight names above; none: to fill up
    advantages: tuple[TurnAdvantages, ...]  # of the match, then of its submatches as ``flatten_episodes`` orders them
    left_out: tuple[tuple[str, ...], ...] = ()  # likewise why each turn was not learned from, or ""; (): all were


def sample_matches(
    episodes: Sequence[Episode],
    trajectories: Sequence[Trajectory],
    advantages: Sequence[Sequence[float]],
    iteration: int,
    per_game: int,
    selections: Sequence[TurnSelection | None] = (),
) -> list[SampledMatch]:
    """Return at most ``per_game`` matches of each game: the named ones before others, which are the next in order.

    The best match has the greatest return of a trained seat; among equals, the greatest mean over its trained seats,
    so that a win over another player precedes a win over itself. The worst is the opposite, and the most surprising
    has the turn with the largest absolute advantage. Then, where there are such: the match with most illegal replies,
    the one with the oldest weights of a policy that others played with newer ones, the longest if lengths differ, and
    one at random among the others. ``episodes`` are all matches of the iteration, from which
    ``trajectories`` were made; these and their advantages may be empty. ``selections`` are of their turns, () where no
    rule of selection is set.
    """
    numbers = _numbers(episodes)
    surprises = _surprises(numbers, trajectories, advantages)
    by_game: dict[str, list[int]] = {}
    for index, episode in enumerate(episodes):
        by_game.setdefault(episode.request.game, []).append(index)
    chosen = {
        index: reasons
        for indices in by_game.values()
        for index, reasons in _choose(episodes, indices, surprises, per_game).items()
    }
    credit = _credit({index: (episodes[index], numbers[index]) for index in chosen}, trajectories, advantages)
    samples = [SampledMatch(episodes[index], iteration, kept_as, credit[index]) for index, kept_as in chosen.items()]
    if not any(any(selection.reasons) for selection in selections if selection is not None):
        return samples
    sentences = [_sentences(selection) for selection in selections]
    reasons = _by_turn({index: (episodes[index], numbers[index]) for index in chosen}, trajectories, sentences, "")
    return [sample._replace(left_out=reasons[index]) for sample, index in zip(samples, chosen, strict=True)]


def _sentences(selection: TurnSelection | None) -> list[str]:
    """Return why each turn of a trajectory was left out, in a sentence; "" for one that was not."""
    reasons = () if selection is None else selection.reasons
    return [f"{name}: {SELECTION[name].reason or SELECTION[name].sentence}" if name else "" for name in reasons]


def _choose(
    episodes: Sequence[Episode], indices: Sequence[int], surprises: Mapping[int, float], most: int
) -> dict[int, tuple[str, ...]]:
    """Return at most ``most`` indices of one game's matches, in their order, with why each is kept."""
    measures: dict[str, Callable[[int], tuple[float, float]]] = {
        FIRST: lambda _: (0.0, 0.0),
        BEST: lambda index: (max(returns[index]), sum(returns[index]) / len(returns[index])),
        WORST: lambda index: (-min(returns[index]), -sum(returns[index]) / len(returns[index])),
        SURPRISING: lambda index: (surprises[index], 0.0),
        REFUSED: lambda index: (refused[index], 0.0),
        STALE: lambda index: (lags[index], 0.0),
        LONGEST: lambda index: (lengths[index], 0.0),
    }
    turns = {index: _turns(episodes[index]) for index in indices}
    refused = {i: float(number) for i in indices if (number := sum(turn.action is None for turn in turns[i]))}
    lags, lengths = _lags(turns), {index: float(len(turns[index])) for index in indices}
    returns = {index: gains for index in indices if (gains := _trained_returns(episodes[index]))}
    candidates = {
        FIRST: indices,
        BEST: [*returns],
        WORST: [*returns],
        SURPRISING: [p for p in indices if p in surprises],
        REFUSED: [*refused],
        STALE: [*lags],
        LONGEST: [*lengths] if len({*lengths.values()}) > 1 else [],
    }
    reasons: dict[int, list[str]] = {}  # by index, in the order of choosing
    for reason, measure in measures.items():
        if candidates[reason]:
            reasons.setdefault(max(candidates[reason], key=measure), []).append(reason)
    left = [index for index in indices if index not in reasons]
    if left and len(reasons) < most:  # seeds are as good as drawn, so the least one's match is any
        reasons[min(left, key=lambda index: episodes[index].request.sample_seed)] = [RANDOM]
    others = (index for index in indices if index not in reasons)
    filled = [*reasons, *islice(others, max(most - len(reasons), 0))]
    return {index: tuple(reasons.get(index, ())) for index in sorted(filled[:most])}


def _turns(episode: Episode) -> list[Turn]:
    """Return all turns of a match and of its submatches."""
    return [*episode.turns, *(turn for child in episode.children for turn in _turns(child))]


def _lags(turns: Mapping[int, Sequence[Turn]]) -> dict[int, float]:
    """Return by how many updates a match's oldest weights are behind the newest of their policy; none that is not."""
    versions = {
        index: [(turn.player, turn.trace.version) for turn in own if turn.trace and turn.trace.version is not None]
        for index, own in turns.items()
    }
    newest: dict[str, int] = {}
    for player, version in (each for own in versions.values() for each in own):
        newest[player] = max(newest.get(player, 0), version)
    lags = {
        index: max((newest[player] - version for player, version in own), default=0) for index, own in versions.items()
    }
    return {index: float(lag) for index, lag in lags.items() if lag}


def with_credit(
    samples: Sequence[SampledMatch], trajectories: Sequence[Trajectory], advantages: Sequence[Sequence[float]]
) -> list[SampledMatch]:
    """Return matches of one iteration with new credit, from the trajectories that were made from all of them."""
    episodes = [sample.episode for sample in samples]
    chosen = dict(enumerate(zip(episodes, _numbers(episodes), strict=True)))
    credit = _credit(chosen, trajectories, advantages)
    return [sample._replace(advantages=credit[index]) for index, sample in enumerate(samples)]


def save_samples(run_dir: Path, iteration: int, samples: Sequence[SampledMatch]) -> None:
    """Write an iteration's kept matches, the credit file first: a kill in between leaves no matches without credit."""
    path = run_dir / EPISODES_FOLDER / f"iteration-{iteration:06d}.jsonl"
    notes = [
        {"kept_as": sample.kept_as, "advantages": sample.advantages}
        | ({"left_out": sample.left_out} if sample.left_out else {})
        for sample in samples
    ]
    episodes = [sample.episode for sample in samples]
    seals = {"sha256": _sha256(episodes_text(episodes).encode()), "credit_sha256": _sha256(json.dumps(notes).encode())}
    atomic_write(_credit_file(path), json.dumps({"iteration": iteration, "matches": notes, **seals}))
    save_episodes(path, episodes)


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
        record = parse_json(credit.read_text(encoding="utf-8"))
        if record.get("sha256") not in (None, _sha256(path.read_bytes())):  # older ones have none
            raise ValueError(f"{path.name} has changed since it was written")
        pairs = zip(episodes, record["matches"], strict=True)
        samples = [_sample(episode, record["iteration"], note) for episode, note in pairs]
        if record.get("credit_sha256") not in (None, _sha256(json.dumps(record["matches"]).encode())):
            raise ValueError("its advantages have changed since they were written")
        return samples
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{credit} does not belong to {path.name} ({type(error).__name__}: {error}). Delete it to read the matches "
            "without their advantages."
        ) from error


def _sample(episode: Episode, iteration: int, note: dict[str, Any]) -> SampledMatch:
    """Return a match with its note. Raises ValueError if the note is of another match."""
    advantages = tuple(map(tuple, note["advantages"]))
    lengths = [len(turns) for turns in advantages]
    if lengths != [len(match.turns) for match in flatten_episodes([episode])]:
        raise ValueError(f"match {episode.request.index} has other numbers of turns than {lengths}")
    left_out = tuple([tuple(map(str, turns)) for turns in note.get("left_out", ())])
    if left_out and list(map(len, left_out)) != lengths:
        raise ValueError(f"match {episode.request.index} has other numbers of turns than its reasons")
    return SampledMatch(episode, int(iteration), tuple(map(str, note["kept_as"])), advantages, left_out)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _credit_file(path: Path) -> Path:
    return path.with_suffix(".credit.json")


def _none_of(episode: Episode) -> tuple[TurnAdvantages, ...]:
    return tuple((None,) * len(match.turns) for match in flatten_episodes([episode]))


def _numbers(episodes: Sequence[Episode]) -> list[list[int]]:
    """Return each match's number within the batch, with those of its submatches, as ``flatten_episodes`` gives them."""
    following = count(max((episode.request.index for episode in episodes), default=-1) + 1)
    return [[episode.request.index, *islice(following, _submatches(episode))] for episode in episodes]


def _submatches(episode: Episode) -> int:
    return sum(1 + _submatches(child) for child in episode.children)


def _surprises(
    numbers: Sequence[Sequence[int]], trajectories: Sequence[Trajectory], advantages: Sequence[Sequence[float]]
) -> dict[int, float]:
    """Return the largest absolute advantage of a turn by the index of its match, omitting matches without any."""
    index_of = {number: index for index, of_match in enumerate(numbers) for number in of_match}
    surprises: dict[int, float] = {}
    for trajectory, advantages_K in zip(trajectories, advantages, strict=True):
        if advantages_K and (index := index_of.get(trajectory.match)) is not None:
            surprises[index] = max(surprises.get(index, 0.0), *map(abs, advantages_K))
    return surprises


def _credit(
    chosen: Mapping[int, tuple[Episode, Sequence[int]]],
    trajectories: Sequence[Trajectory],
    advantages: Sequence[Sequence[float]],
) -> dict[int, tuple[TurnAdvantages, ...]]:
    """Return the advantages of the turns of chosen matches and of their submatches. ``chosen`` gives their numbers."""
    return _by_turn(chosen, trajectories, advantages, None)


def _by_turn(
    chosen: Mapping[int, tuple[Episode, Sequence[int]]],
    trajectories: Sequence[Trajectory],
    cells: Sequence[Sequence[Any]],
    empty: Any,
) -> dict[int, tuple[tuple[Any, ...], ...]]:
    """Return what trajectories have by turn, for the turns of chosen matches; ``empty`` for other turns."""
    wanted = {number for _, numbers in chosen.values() for number in numbers}
    of_seat = {
        (trajectory.match, trajectory.seat): cells_K
        for trajectory, cells_K in zip(trajectories, cells, strict=True)
        if trajectory.match in wanted
    }
    of_matches: dict[int, tuple[tuple[Any, ...], ...]] = {}
    for index, (episode, numbers) in chosen.items():
        turns: list[tuple[Any, ...]] = []
        for number, match in zip(numbers, flatten_episodes([episode]), strict=True):
            left = [iter(of_seat.get((number, seat), ())) for seat in range(len(match.returns))]
            turns.append(tuple([next(left[turn.seat], empty) for turn in match.turns]))
        of_matches[index] = tuple(turns)
    return of_matches


def _trained_returns(episode: Episode) -> list[float]:
    return [value for value, trained in zip(episode.returns, episode.request.trained, strict=True) if trained]
