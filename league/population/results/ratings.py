"""Online ratings of immutable players by game: Weng and Lin's Plackett-Luce model (JMLR 12, 2011).

Plackett-Luce reads a match of N seats as one ranking: with three seats or more the pairwise models
(Bradley-Terry, Thurstone-Mosteller) count it N - 1 times and become overconfident. For two seats it is
Bradley-Terry, and it has no draw margin to tune. tau = 0: a snapshot does not change, so nothing is added
to its uncertainty between matches. Live policies do change, so they are not to be rated.

A comparison is a deal: all matches that the same players had on it in a batch are one comparison of
their mean returns, as in duplicate bridge. Where every seating was played, the luck of the deal cancels.

Ratings by role compare the seats of a match as (player, role), the same line-up on the same deal once.
Moving first may be an advantage, so only ratings in the same role can be compared: they are given relative
to the anchors' ratings in that role, which include the same advantage.

Mirror matches are left out, since rating a player against itself makes it drift.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from arena.records import Episode

if TYPE_CHECKING:
    from openskill.models import PlackettLuce

Skill = tuple[float, float]  # mean mu and standard deviation sigma

MU, SIGMA = 25.0, 25.0 / 3.0  # of a newcomer
_ANCHOR_SIGMA = 1e-3  # not zero, because openskill divides by it
_DECIMALS = 9  # in comparing mean returns: equal ones may differ by rounding


class PlayerRating(NamedTuple):
    """A player's online rating in one game."""

    player: str
    mu: float
    sigma: float

    @property
    def ordinal(self) -> float:
        """Mu - 3 sigma, a lower bound of the skill with 99.9 % confidence."""
        return self.mu - 3.0 * self.sigma


class Ratings:
    """Skill by (game, player), and by (game, role, player); newcomers have (25, 25/3).

    ``anchors`` are scripted players whose rating is fixed at mu = 25: they give different runs the same scale.
    """

    def __init__(self, anchors: Iterable[str] = ()) -> None:
        self.anchors = frozenset(anchors)
        self._ratings: dict[str, dict[str, Skill]] = {}  # by game, then player
        self._roles: dict[str, dict[str, dict[str, Skill]]] = {}  # by game, role, player; a role's advantage included

    def update(self, episodes: Iterable[Episode]) -> None:
        """Rate a batch, deal by deal by their smallest match index, whatever the order of ``episodes``.

        A player that holds several seats is rated once, by their mean return.
        """
        ordered = sorted(episodes, key=lambda episode: episode.request.index)
        contests = [episode for episode in ordered if len(set(episode.request.players)) > 1]
        for (game, _, _), matches in _grouped(contests, lambda players: tuple(sorted(set(players)))).items():
            self._rate(game, matches)
        roles = {(episode.request.game, turn.seat): turn.role for episode in ordered for turn in episode.turns}
        for (game, _, players), matches in _grouped(contests, tuple).items():
            self._rate_roles(game, [roles.get((game, s), f"seat {s}") for s in range(len(players))], matches)

    def rating(self, player: str, game: str) -> Skill:
        """Return (mu, sigma)."""
        if player in self.anchors:
            return MU, _ANCHOR_SIGMA
        return self._ratings.get(game, {}).get(player, (MU, SIGMA))

    def roles(self, game: str) -> list[str]:
        """Return the roles in which any player was rated, sorted."""
        return sorted(self._roles.get(game, {}))

    def role_rating(self, player: str, game: str, role: str) -> Skill | None:
        """Return (mu, sigma) in a role, the mean of the anchors in that role being 25; None if never rated in it.

        Without anchors in the role, the mean of all its players is 25. The uncertainty of that mean is
        included, so the only anchor of a role has exactly (25, 0).
        """
        skills = self._roles.get(game, {}).get(role, {})
        if player not in skills:
            return None
        references = [name for name in skills if name in self.anchors] or list(skills)
        mu, sigma = skills[player]
        share = 1.0 / len(references)
        # player - mean(references): a reference has weight -share, the player 1, or 1 - share where it is a reference.
        weight = 1.0 - share * (player in references)
        variance = math.fsum((share * skills[name][1]) ** 2 for name in references if name != player)
        return MU + (mu - fmean(skills[name][0] for name in references)), math.sqrt((weight * sigma) ** 2 + variance)

    def ranking(self, game: str) -> list[PlayerRating]:
        """Return the players that have met somebody in a game, the highest mu first, ties by name.

        By mu, since anchors have no uncertainty and would lead every list that is sorted by ordinal.
        """
        ranking = [PlayerRating(player, *self.rating(player, game)) for player in self._ratings.get(game, {})]
        return sorted(ranking, key=lambda rating: (-rating.mu, rating.player))

    def to_json(self) -> dict[str, Any]:
        """Return the ratings as plain data; floats survive ``json`` exactly."""
        return {
            "anchors": sorted(self.anchors),
            "ratings": {
                game: {player: list(self.rating(player, game)) for player in sorted(players)}
                for game, players in sorted(self._ratings.items())
            },
            "roles": {
                game: {role: dict(sorted(skills.items())) for role, skills in sorted(roles.items())}
                for game, roles in sorted(self._roles.items())
            },
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the ratings from the data of ``to_json``; older data has no roles.

        Raises ValueError, TypeError, KeyError or AttributeError for other data.
        """
        ratings = cls(data["anchors"])
        for game, players in data["ratings"].items():
            ratings._ratings[game] = _skills(players)
        for game, roles in data.get("roles", {}).items():
            ratings._roles[game] = {role: _skills(skills) for role, skills in roles.items()}
        return ratings

    def _rate(self, game: str, matches: Sequence[Episode]) -> None:
        """Rate the players of a deal."""
        returns = _mean_returns(matches, [""] * len(matches[0].returns))
        players = self._ratings.setdefault(game, {})
        after = _rate([self.rating(player, game) for player, _ in returns], list(returns.values()))
        players.update(zip([player for player, _ in returns], after, strict=True))

    def _rate_roles(self, game: str, roles: Sequence[str], matches: Sequence[Episode]) -> None:
        """Rate the seats of a line-up on a deal, each as a player in a role."""  # roles: [seats]
        returns = _mean_returns(matches, roles)
        skills = self._roles.setdefault(game, {})
        before = [skills.get(role, {}).get(player, (MU, SIGMA)) for player, role in returns]
        for (player, role), skill in zip(returns, _rate(before, list(returns.values())), strict=True):
            skills.setdefault(role, {})[player] = skill


def _skills(data: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """Return players' μ and σ. Raises ValueError for what is not two finite numbers, the second not negative."""
    skills = {player: (float(mu), float(sigma)) for player, (mu, sigma) in data.items()}
    if not all(math.isfinite(mu) and 0.0 <= sigma < math.inf for mu, sigma in skills.values()):
        raise ValueError("a rating is not finite, or has a negative standard deviation")
    return skills


def _grouped(
    episodes: Sequence[Episode], key: Callable[[tuple[str, ...]], tuple[str, ...]]
) -> dict[tuple[str, int, tuple[str, ...]], list[Episode]]:
    """Return matches by (game, deal, ``key`` of the players), groups in the order of their first match."""
    groups: dict[tuple[str, int, tuple[str, ...]], list[Episode]] = {}
    for episode in episodes:
        request = episode.request
        groups.setdefault((request.game, request.deal_seed, key(request.players)), []).append(episode)
    return groups


def _mean_returns(matches: Sequence[Episode], roles: Sequence[str]) -> dict[tuple[str, str], float]:
    """Return each (player, role)'s mean over the matches of its seats' mean return; ``roles`` are by seat."""
    means: dict[tuple[str, str], list[float]] = {}
    for match in matches:
        by_entrant: dict[tuple[str, str], list[float]] = {}
        for player, role, value in zip(match.request.players, roles, match.returns, strict=True):
            by_entrant.setdefault((player, role), []).append(value)
        for entrant, returns in by_entrant.items():
            means.setdefault(entrant, []).append(fmean(returns))
    return {entrant: round(fmean(returns), _DECIMALS) for entrant, returns in means.items()}


@functools.cache
def _model() -> PlackettLuce:
    from openskill.models import PlackettLuce  # takes a moment to import, and published ratings need none

    return PlackettLuce(mu=MU, sigma=SIGMA, tau=0.0)


def _rate(before: Sequence[Skill], returns: Sequence[float]) -> list[Skill]:
    """Return skills after one comparison; the greatest return is first, equal returns draw."""  # all [entrants]
    model = _model()
    after = model.rate([[model.create_rating(list(skill))] for skill in before], scores=list(returns))
    return [(rating.mu, rating.sigma) for [rating] in after]
