"""What a message added, by what would have come of others in its place: counterfactuals of messages, leave-one-out.

The match is frozen before a turn, its seat draws ``count`` other replies there by its own policy, and each is played to
the end by the seats that were there. With R the seat's return,

    c_k = mean of R after what was said − mean over the alternatives of R

which is COMA's advantage (arXiv 1705.08926) with sampled alternatives and ends in place of a critic, and with
``said`` = 1, where only the match itself tells what its turn was worth, leave-one-out (arXiv 2402.14740) at the turn.
Deal and chance are the same in all of them.

Influence is told from the same matches: what was said and the alternatives, each with the distribution of the next
seat's choice (``learners.influence``), in equal parts. From few alternatives it is on average too low, and it is 0
where the message is ignored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from pydantic import Field

from arena.records import Episode, Turn
from games.common.section import Positive, Section
from games.common.seeds import derive_seed
from learners.trajectories import Trajectory
from learners.values.continuations import Continuations, Floats, Point, check, turn_places
from learners.values.estimator import Columns, Estimated, Estimates, How, PlayMatches, Simulator, ValueEstimator

ANSWERS = "answers"  # the column of what was answered to turns and to their alternatives, of which influence is told


class Settings(Section):
    """How other replies are tried in place of each turn."""

    count: Positive = Field(4, description="other replies that are drawn in place of each turn, and played to the end")
    said: Positive = Field(
        1, description="matches that tell what the turn itself was worth: its own, and others played on from after it"
    )


class Alternatives(NamedTuple):
    """What was played in place of the turns of trajectories, and what that says of them."""

    contributions: Estimates  # [N][K]
    # the answer to each turn and then to each of its alternatives; None where nobody else had the next turn
    answers: list[list[tuple[Turn | None, ...]]]  # [N][K][1 + count]


class TriedAlternatives:
    """Plays others in place of every turn; it learns nothing."""

    def __init__(
        self,
        play: PlayMatches,
        count: int,
        said: int,
        episodes: Mapping[int, Episode],
        scales: Mapping[str, float],
        seed: int = 0,
    ) -> None:
        """``episodes`` are the trajectories' matches by index, ``scales`` what each game's returns were divided by."""
        self._others = Continuations(play, count, derive_seed(seed, "alternatives"))
        self._again = Continuations(play, said - 1, derive_seed(seed, "said"))
        self._episodes, self._scales = episodes, scales

    def estimate(self, trajectories: Sequence[Trajectory]) -> Alternatives:
        """Return what each turn added, in the trajectories' units, and the answers to it and to its alternatives."""
        places = [turn_places(self._episodes[t.match], t.seat) for t in trajectories]
        points = [(self._episodes[t.match], k) for t, own in zip(trajectories, places, strict=True) for k in own]
        others = iter(self._others.matches(points))
        again = self._said_again(points)
        found = Alternatives([], [])
        for trajectory, own in zip(trajectories, places, strict=True):
            seat, scale, episode = trajectory.seat, self._scales[trajectory.game], self._episodes[trajectory.match]
            contributions, answers = [], []
            for k in own:
                alternatives = next(others)
                said = [episode.returns[seat], *[returns[seat] for returns in again.get((trajectory.match, k), ())]]
                contributions.append(leave_one_out(said, [e.returns[seat] for e in alternatives]) / scale)
                answers.append((answer(episode.turns, k), *[answer(e.turns, 0) for e in alternatives]))
            found.contributions.append(tuple(contributions))
            found.answers.append(answers)
        return found

    def _said_again(self, points: Sequence[Point]) -> dict[tuple[int, int], Floats]:
        """Return the returns [said − 1, seats] of matches that go on from after turns, by match and turn.

        What was refused or called a tool is not repeated: a match cannot be taken up there.
        """
        if not self._again.count:
            return {}
        after = [(episode, k + 1) for episode, k in points if _moves(episode.turns[k])]
        returns = self._again.returns(after)
        return {(episode.request.index, k - 1): own for (episode, k), own in zip(after, returns, strict=True)}


def leave_one_out(said: Sequence[float], alternatives: Sequence[float]) -> float:
    """Return the mean return after what was said less that after its alternatives."""
    return fmean(said) - fmean(alternatives)


def answer(turns: Sequence[Turn], place: int) -> Turn | None:
    """Return the turn of another seat that answers what a seat says from turn ``place`` on.

    Refused replies and calls of tools before what it says are passed over. None where the seat has the next turn too,
    or nobody has.
    """
    said = next((i for i in range(place, len(turns)) if _moves(turns[i])), None)
    if said is None or said + 1 == len(turns) or turns[said + 1].seat == turns[place].seat:
        return None
    return turns[said + 1]


def _moves(turn: Turn) -> bool:
    return turn.action is not None and not turn.tool


def alternatives(trajectories: Sequence[Trajectory], simulator: Simulator, settings: Settings) -> Columns:
    """Play others in place of every turn, and learn nothing."""
    tried = TriedAlternatives(
        simulator.play,
        settings.count,
        settings.said,
        simulator.episodes,
        simulator.scales,
        simulator.seed("alternatives"),
    ).estimate(trajectories)
    return {Estimated.CONTRIBUTIONS: tried.contributions, ANSWERS: tried.answers}


ESTIMATOR = ValueEstimator(alternatives, Settings, check=check, kind=Estimated.CONTRIBUTIONS, how=How.PLAY)
