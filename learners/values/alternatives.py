"""What a message added, compared with other messages in its place: message counterfactuals, leave-one-out.

The match is frozen before a turn, its seat draws ``count`` other replies there from its own policy, and each is played
to the end by the same players. With R the seat's return,

    c_k = mean of R after what was said − mean over the alternatives of R

which is COMA's advantage (arXiv 1705.08926) with sampled alternatives and ends in place of a critic, and with
``said`` = 1, where the match itself is the only sample of its turn's value, leave-one-out (arXiv 2402.14740) at the
turn. Deal and chance are the same in all of them.

Influence (``learners.influence``) is measured from the same matches. With few alternatives its estimate is biased low; it
is 0 where the message is ignored.
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
from learners.values.continuations import Continuations, Point, turn_places
from learners.values.estimator import Columns, Estimated, Estimates, How, PlayMatches, Simulator, ValueEstimator

ANSWERS = "answers"  # the column of answers to turns and to their alternatives, from which influence is measured


class Settings(Section):
    """How other replies are tried in place of each turn."""

    count: Positive = Field(4, description="other replies drawn in place of each turn and played to the end")
    said: Positive = Field(
        1, description="matches that estimate the value of the turn itself: its own, and others continued from after it"
    )


class Alternatives(NamedTuple):
    """What was played in place of trajectories' turns, and what each turn added by comparison."""

    contributions: Estimates  # [N][K]
    # the answer to each turn and then to each of its alternatives; None where nobody else had the next turn
    answers: list[list[tuple[Turn | None, ...]]]  # [N][K][1 + count]


class TriedAlternatives:
    """Plays alternatives to every turn; it learns nothing."""

    def __init__(
        self,
        play: PlayMatches,
        count: int,
        said: int,
        episodes: Mapping[int, Episode],
        scales: Mapping[str, float],
        seed: int = 0,
    ) -> None:
        """``episodes`` are the trajectories' matches by index, ``scales`` the divisors of each game's returns."""
        self._alternatives = Continuations(play, count, derive_seed(seed, "alternatives"), episodes)
        self._replays = Continuations(play, said - 1, derive_seed(seed, "said"), episodes)
        self._episodes, self._scales = episodes, scales

    def estimate(self, trajectories: Sequence[Trajectory]) -> Alternatives:
        """Return what each turn added, in the trajectories' units, and the answers to it and to its alternatives."""
        turns_N = [turn_places(self._episodes[t.match], t.seat) for t in trajectories]
        points = [(self._episodes[t.match], k) for t, turns in zip(trajectories, turns_N, strict=True) for k in turns]
        matches = self._alternatives.matches(points)
        alternatives_of_turns = iter(zip(matches, self._alternatives.paid(points, matches), strict=True))
        replays = self._replayed_returns(points)
        estimated = Alternatives([], [])
        for trajectory, turns in zip(trajectories, turns_N, strict=True):
            seat, scale, episode = trajectory.seat, self._scales[trajectory.game], self._episodes[trajectory.match]
            contributions, answers = [], []
            for k in turns:
                alternatives, paid = next(alternatives_of_turns)
                returns_said = [
                    episode.returns[seat],
                    *[returns[seat] for returns in replays.get((trajectory.match, k), ())],
                ]
                contributions.append(leave_one_out(returns_said, [returns[seat] for returns in paid]) / scale)
                answers.append((answer(episode.turns, k), *[answer(e.turns, 0) for e in alternatives]))
            estimated.contributions.append(tuple(contributions))
            estimated.answers.append(answers)
        return estimated

    def _replayed_returns(self, points: Sequence[Point]) -> dict[tuple[int, int], list[tuple[float, ...]]]:
        """Return the returns [said − 1][seats] of continuations from after turns, by match and turn.

        Turns that were refused or called a tool are left out: a match cannot be resumed there.
        """
        if not self._replays.count:
            return {}
        after = [(episode, k + 1) for episode, k in points if _moves(episode.turns[k])]
        returns = self._replays.paid(after)
        return {
            (episode.request.index, k - 1): returns_of_point
            for (episode, k), returns_of_point in zip(after, returns, strict=True)
        }


def leave_one_out(said: Sequence[float], alternatives: Sequence[float]) -> float:
    """Return the mean return after what was said less the mean return after its alternatives."""
    return fmean(said) - fmean(alternatives)


def answer(turns: Sequence[Turn], start: int) -> Turn | None:
    """Return the turn of another seat that answers what a seat says from turn ``start`` on.

    Refused replies and calls of tools before what it says are passed over. None where the same seat has the next turn
    too, or nobody does.
    """
    said = next((i for i in range(start, len(turns)) if _moves(turns[i])), None)
    if said is None or said + 1 == len(turns) or turns[said + 1].seat == turns[start].seat:
        return None
    return turns[said + 1]


def _moves(turn: Turn) -> bool:
    return turn.action is not None and not turn.tool


def alternatives(trajectories: Sequence[Trajectory], simulator: Simulator, settings: Settings) -> Columns:
    """Play alternatives to every turn; nothing is learned."""
    tried = TriedAlternatives(
        simulator.play,
        settings.count,
        settings.said,
        simulator.episodes,
        simulator.scales,
        simulator.seed("alternatives"),
    ).estimate(trajectories)
    return {Estimated.CONTRIBUTIONS: tried.contributions, ANSWERS: tried.answers}


ESTIMATOR = ValueEstimator(alternatives, Settings, kind=Estimated.CONTRIBUTIONS, how=How.PLAY)
