"""Online ratings of immutable players by game: Weng and Lin's Plackett-Luce model (JMLR 12, 2011).

Plackett-Luce, because it reads a match of N seats as one ranking: with three seats or more the
pairwise models (Bradley-Terry, Thurstone-Mosteller) count it N - 1 times and grow too sure. For two
seats it is Bradley-Terry, and it has no draw margin to tune. tau = 0: a snapshot does not change,
so nothing is added to its uncertainty between matches. Live policies do change; leave them out.

Mirror matches are left out, since rating a player against itself makes it drift.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Self

from openskill.models import PlackettLuce

from arena.records import Episode

_MODEL = PlackettLuce(tau=0.0)
_ANCHOR_SIGMA = 1e-3  # openskill divides by sigmas, so an anchor's is not quite zero


class Standing(NamedTuple):
    """One line of the standings."""

    player: str
    mu: float
    sigma: float
    ordinal: float


class Ratings:
    """Skill by (game, player) as mean mu and standard deviation sigma; newcomers have (25, 25/3).

    ``anchors`` are scripted players whose rating is held at mu = 25: they tie the scale of one run
    to that of another.
    """

    def __init__(self, anchors: Iterable[str] = ()) -> None:
        self.anchors = frozenset(anchors)
        self._ratings: dict[str, dict[str, tuple[float, float]]] = {}  # by game, then player

    def fold(self, episodes: Iterable[Episode]) -> None:
        """Rate a batch of matches one after another by their index, whatever order they come in.

        A player that holds several seats of a match is rated once, by their mean return.
        """
        for episode in sorted(episodes, key=lambda episode: episode.request.index):
            seats: dict[str, list[float]] = {}
            for player, gain in zip(episode.request.players, episode.returns, strict=True):
                seats.setdefault(player, []).append(gain)
            if len(seats) > 1:
                self._rate(episode.request.game, {player: sum(g) / len(g) for player, g in seats.items()})

    def rating(self, player: str, game: str) -> tuple[float, float]:
        """Return (mu, sigma)."""
        if player in self.anchors:
            return _MODEL.mu, _ANCHOR_SIGMA
        return self._ratings.get(game, {}).get(player, (_MODEL.mu, _MODEL.sigma))

    def ordinal(self, player: str, game: str) -> float:
        """Return mu - 3 sigma: the player is better than that with 99.9 % certainty."""
        mu, sigma = self.rating(player, game)
        return mu - 3.0 * sigma

    def standings(self, game: str) -> list[Standing]:
        """Return the players that have met somebody in a game, the highest mu first, ties by name.

        By mu, since an anchor is certain of its own and would lead every list that is sorted by ordinal.
        """
        players = self._ratings.get(game, {})
        lines = [Standing(player, *self.rating(player, game), self.ordinal(player, game)) for player in players]
        return sorted(lines, key=lambda line: (-line.mu, line.player))

    def to_json(self) -> dict[str, Any]:
        """Return the ratings as plain data; floats survive ``json`` exactly."""
        return {
            "anchors": sorted(self.anchors),
            "ratings": {
                game: {player: list(self.rating(player, game)) for player in sorted(players)}
                for game, players in sorted(self._ratings.items())
            },
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the ratings that ``to_json`` told."""
        ratings = cls(data["anchors"])
        for game, players in data["ratings"].items():
            ratings._ratings[game] = {player: (mu, sigma) for player, (mu, sigma) in players.items()}
        return ratings

    def _rate(self, game: str, scores: Mapping[str, float]) -> None:
        """Rate one match between different players; the highest score is first, equal scores draw."""
        before = [_MODEL.create_rating(list(self.rating(player, game))) for player in scores]
        after = _MODEL.rate([[rating] for rating in before], scores=list(scores.values()))
        players = self._ratings.setdefault(game, {})
        for player, [rating] in zip(scores, after, strict=True):
            players[player] = (rating.mu, rating.sigma)
