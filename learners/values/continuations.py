"""The value of a turn by Monte Carlo continuations of the match (IPR, "Watch Every Step!", arXiv 2406.11176).

A match is resumed before its turn k, with the same deal and the same actions so far, and its seats continue it
``count`` times. The mean return is an unbiased estimate of the value of that history under the policies that play, and
the mean after the turn less the mean before it estimates the turn's advantage. Later chance follows the deal, so luck
that is still to come is the same before and after the turn, and cancels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from arena.records import Episode, MatchRequest
from arena.scheduler import Engine, play
from arena.submatches import attempt_of, begin_match, middle, play_again
from games.common.section import Positive, Section
from games.common.seeds import derive_seed
from games.registry import make_game
from games.spec import OpensSubmatches, tell_of_submatches
from learners.trajectories import Trajectory
from learners.values.estimator import (
    Columns,
    Estimated,
    Estimates,
    How,
    PlayMatches,
    Simulator,
    ValueEstimator,
)
from roles.role import Role

Floats = NDArray[np.float64]


class Settings(Section):
    """How matches are continued from before each turn."""

    count: Positive = Field(4, description="matches continued from before each turn")


Point = tuple[Episode, int]  # a match, and how many of its turns have been played


def plays(roles: tuple[Role, ...], engine_of: Callable[[str], Engine]) -> PlayMatches:
    """Return a function that plays matches of one game with these roles and engines."""

    def played(requests: list[MatchRequest]) -> list[Episode]:
        return play(requests, roles_of=lambda _: roles, engine_of=engine_of, make_game=make_game)

    return played


class Continuations:
    """Continues matches from the middle, with the players that they had.

    What a submatch pays may depend on what its parent makes of it: a continued one is followed by a continuation of its
    parent, in which everything else that was opened beside it ended as it did.
    """

    def __init__(
        self, play: PlayMatches, count: int = 16, seed: int = 0, matches: Mapping[int, Episode] | None = None
    ) -> None:
        """Continue each point ``count`` times; ``seed`` fixes what players draw.

        ``matches``: all by index, as ``flatten_episodes`` numbers them, where some of them opened others.
        """
        self.count = count
        self._play, self._seed, self._all = play, seed, matches or {}
        self._opened: dict[int, list[Episode]] = {}  # by the index of the match that opened them, in that order
        for episode in self._all.values():
            if episode.request.parent is not None:
                self._opened.setdefault(episode.request.parent, []).append(episode)

    def returns(self, points: Sequence[Point]) -> Floats:
        """Return the returns by point, continuation and seat [N, count, seats], in the game's units.

        A match that is over has its own returns. All games of the points have as many seats.
        """
        return np.array(self.paid(points), np.float64)

    def paid(
        self, points: Sequence[Point], matches: Sequence[Sequence[Episode]] | None = None
    ) -> list[list[tuple[float, ...]]]:
        """Return the returns by point and continuation [N][count][seats], of games with any numbers of seats.

        ``matches`` are the continuations, where they are known.
        """
        matches = self.matches(points) if matches is None else matches
        paid = [[episode.returns for episode in continuations] for continuations in matches]
        below = [
            (number, draw)
            for number, (episode, played) in enumerate(points)
            if episode.request.parent in self._all and played < len(episode.turns)
            for draw in range(self.count)
        ]
        requests, places = [], []
        for index, (number, draw) in enumerate(below):
            request, place = self._parents(points[number], matches[number][draw], draw)
            requests.append(request._replace(index=index))
            places.append(place)
        for (number, draw), parent, place in zip(below, self._play(requests) if requests else (), places, strict=True):
            game = make_game(parent.request.game)
            play_again(game, parent)
            assert isinstance(game, OpensSubmatches)
            amounts = game.submatch_returns()[place]
            paid[number][draw] = tuple([own + more for own, more in zip(paid[number][draw], amounts, strict=True)])
        return paid

    def _parents(self, point: Point, continued: Episode, draw: int) -> tuple[MatchRequest, int]:
        """Return the request of a submatch's parent after another course of it, and its place among those opened."""
        episode, played = point
        parent = self._all[episode.request.parent or 0]
        children = self._opened[parent.request.index]
        own = next(number for number, child in enumerate(children) if child is episode)
        place = len(parent.request.attempts) + own
        ended = [*children[:own], continued, *children[own + 1 :]]
        request = middle(parent, _opening_turn(parent, children, own) + 1, ended)
        seeds = self._seed, "parent", parent.request.sample_seed, episode.request.sample_seed, played, draw
        return request._replace(sample_seed=derive_seed(*seeds)), place

    def matches(self, points: Sequence[Point]) -> list[list[Episode]]:
        """Return the continuations of each point [N][count]; of a match that is over, itself."""
        continuations = [[episode] * self.count for episode, _ in points]
        open_points = [number for number, (episode, played) in enumerate(points) if played < len(episode.turns)]
        requests = [
            self._request(*points[number], draw, index * self.count + draw)
            for index, number in enumerate(open_points)
            for draw in range(self.count)
        ]
        episodes = self._play(requests)
        for index, number in enumerate(open_points):
            continuations[number] = episodes[index * self.count : (index + 1) * self.count]
        return continuations

    def _request(self, episode: Episode, played: int, draw: int, index: int) -> MatchRequest:
        old = episode.request
        seed = derive_seed(self._seed, "continuation", old.sample_seed, played, draw)
        return middle(episode, played, self._opened.get(old.index))._replace(index=index, sample_seed=seed)


def _opening_turn(parent: Episode, children: Sequence[Episode], place: int) -> int:
    """Return which turn of a match opened one of its submatches."""
    game, whole = make_game(parent.request.game), parent._replace(children=tuple(children))
    assert isinstance(game, OpensSubmatches)
    begin_match(game, parent.request)
    left = iter(children)
    opened = 0
    for number, turn in enumerate(whole.turns):
        if turn.action is None or turn.tool:
            continue
        game.apply(turn.action)
        if below := game.submatches():
            opened += len(below)
            if opened > place:
                return number
            tell_of_submatches(game, [attempt_of(next(left)) for _ in below])
    raise ValueError(f"match {parent.request.index} has no turn that opened its submatch {place + 1}")


class ContinuationValues:
    """Values of turns by continuations from before every one."""

    def __init__(
        self, continuations: Continuations, episodes: Mapping[int, Episode], scales: Mapping[str, float]
    ) -> None:
        """``episodes`` are the trajectories' matches by index, ``scales`` the divisors of each game's returns."""
        self._continuations, self._episodes, self._scales = continuations, episodes, scales

    def estimate(self, trajectories: Sequence[Trajectory]) -> Estimates:
        """Return a value for each turn, less the seat's rewards before it, in the trajectories' units."""
        turns_N = [turn_places(self._episodes[t.match], t.seat) for t in trajectories]
        points = [(self._episodes[t.match], k) for t, turns in zip(trajectories, turns_N, strict=True) for k in turns]
        means = [np.mean(np.array(paid, np.float64), axis=0) for paid in self._continuations.paid(points)]  # [N][seats]
        values, start = [], 0
        for trajectory, turns in zip(trajectories, turns_N, strict=True):
            own = [mean[trajectory.seat] for mean in means[start : start + len(turns)]]
            totals = np.array(own, np.float64) / self._scales[trajectory.game]
            earlier = np.cumsum(trajectory.rewards) - np.array(trajectory.rewards)
            values.append(tuple((totals - earlier).tolist()))
            start += len(turns)
        return values


def turn_places(episode: Episode, seat: int) -> list[int]:
    """Return the indices of a seat's turns among all turns of a match."""
    return [number for number, turn in enumerate(episode.turns) if turn.seat == seat]


def continuations(trajectories: Sequence[Trajectory], simulator: Simulator, settings: Settings) -> Columns:
    """Continue matches from before every turn; nothing is learned."""
    runs = Continuations(simulator.play, settings.count, simulator.seed("continued"), simulator.episodes)
    values = ContinuationValues(runs, simulator.episodes, simulator.scales)
    return {Estimated.VALUES: values.estimate(trajectories)}


ESTIMATOR = ValueEstimator(continuations, Settings, how=How.PLAY)
