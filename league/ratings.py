"""Online ratings of immutable players by game: Weng and Lin's Plackett-Luce model (JMLR 12, 2011).

Plackett-Luce, because it reads a match of N seats as one ranking: with three seats or more the
pairwise models (Bradley-Terry, Thurstone-Mosteller) count it N - 1 times and grow too sure. For two
seats it is Bradley-Terry, and it has no draw margin to tune. tau = 0: a snapshot does not change,
so nothing is added to its uncertainty between matches. Live policies do change; leave them out.

What is rated is a deal: all matches that the same players had on it in a batch are one comparison of
their mean returns, as in duplicate bridge. Where every seating was played, the luck of the deal cancels.

Beside them stand ratings by role: every match compares its seats as (player, role), the same line-up on
the same deal once. To move first may be an advantage, so only players of one role are compared:
a role's ratings are told relative to the anchors' in that role, in which the advantage is the same.

Mirror matches are left out, since rating a player against itself makes it drift.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple, Self

from openskill.models import PlackettLuce

from arena.records import Episode

Skill = tuple[float, float]  # mean mu and standard deviation sigma

MU, SIGMA = 25.0, 25.0 / 3.0  # of a newcomer
_MODEL = PlackettLuce(mu=MU, sigma=SIGMA, tau=0.0)
_ANCHOR_SIGMA = 1e-3  # openskill divides by sigmas, so an anchor's is not quite zero
_DECIMALS = 9  # to which mean returns are compared: those of a level deal add up in different orders


class Standing(NamedTuple):
    """One line of the standings."""

    player: str
    mu: float
    sigma: float
    ordinal: float


class Ratings:
    """Skill by (game, player), and by (game, role, player); newcomers have (25, 25/3).

    ``anchors`` are scripted players whose rating is held at mu = 25: they tie the scale of one run
    to that of another.
    """

    def __init__(self, anchors: Iterable[str] = ()) -> None:
        self.anchors = frozenset(anchors)
        self._ratings: dict[str, dict[str, Skill]] = {}  # by game, then player
        self._roles: dict[str, dict[str, dict[str, Skill]]] = {}  # by game, role, player; advantages not taken out

    def fold(self, episodes: Iterable[Episode]) -> None:
        """Rate a batch, deal by deal in the order of their first indices, whatever order the matches come in.

        A player that holds several seats is rated once, by their mean return.
        """
        ordered = sorted(episodes, key=lambda episode: episode.request.index)
        met = [episode for episode in ordered if len(set(episode.request.players)) > 1]
        for (game, _, _), matches in _grouped(met, lambda players: tuple(sorted(set(players)))).items():
            self._rate(game, matches)
        roles = {(episode.request.game, turn.seat): turn.role for episode in ordered for turn in episode.turns}
        for (game, _, players), matches in _grouped(met, tuple).items():
            self._rate_roles(game, [roles.get((game, s), f"seat {s}") for s in range(len(players))], matches)

    def rating(self, player: str, game: str) -> Skill:
        """Return (mu, sigma)."""
        if player in self.anchors:
            return MU, _ANCHOR_SIGMA
        return self._ratings.get(game, {}).get(player, (MU, SIGMA))

    def ordinal(self, player: str, game: str) -> float:
        """Return mu - 3 sigma: the player is better than that with 99.9 % certainty."""
        mu, sigma = self.rating(player, game)
        return mu - 3.0 * sigma

    def roles(self, game: str) -> list[str]:
        """Return the roles in which anybody was rated, sorted."""
        return sorted(self._roles.get(game, {}))

    def role_rating(self, player: str, game: str, role: str) -> Skill | None:
        """Return (mu, sigma) in a role, the mean of the anchors in that role being 25; None if never rated in it.

        Without anchors in the role, the mean of all its players is 25. The uncertainty of who is
        compared with is included, so an anchor that is alone has its own role's exactly: (25, 0).
        """
        skills = self._roles.get(game, {}).get(role, {})
        if player not in skills:
            return None
        known = [one for one in skills if one in self.anchors] or list(skills)
        mu, sigma = skills[player]
        share = 1.0 / len(known)
        # player - mean(known): each of the known counts -share, the player itself 1 - share where it is among them.
        own = 1.0 - share * (player in known)
        others = math.fsum((share * skills[one][1]) ** 2 for one in known if one != player)
        return MU + (mu - fmean(skills[one][0] for one in known)), math.sqrt((own * sigma) ** 2 + others)

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
            "roles": {
                game: {role: dict(sorted(skills.items())) for role, skills in sorted(roles.items())}
                for game, roles in sorted(self._roles.items())
            },
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the ratings that ``to_json`` told. Those of before there were roles begin without."""
        ratings = cls(data["anchors"])
        for game, players in data["ratings"].items():
            ratings._ratings[game] = {player: (mu, sigma) for player, (mu, sigma) in players.items()}
        for game, roles in data.get("roles", {}).items():
            ratings._roles[game] = {
                role: {player: (mu, sigma) for player, (mu, sigma) in skills.items()} for role, skills in roles.items()
            }
        return ratings

    def _rate(self, game: str, matches: Sequence[Episode]) -> None:
        """Rate the players of a deal."""
        gains = _mean_gains(matches, [""] * len(matches[0].returns))
        players = self._ratings.setdefault(game, {})
        after = _compared([self.rating(player, game) for player, _ in gains], list(gains.values()))
        players.update(zip([player for player, _ in gains], after, strict=True))

    def _rate_roles(self, game: str, roles: Sequence[str], matches: Sequence[Episode]) -> None:
        """Rate the seats of a line-up on a deal, each as a player in a role."""  # roles: [seats]
        gains = _mean_gains(matches, roles)
        skills = self._roles.setdefault(game, {})
        before = [skills.get(role, {}).get(player, (MU, SIGMA)) for player, role in gains]
        for (player, role), skill in zip(gains, _compared(before, list(gains.values())), strict=True):
            skills.setdefault(role, {})[player] = skill


def _grouped(
    episodes: Sequence[Episode], key: Callable[[tuple[str, ...]], tuple[str, ...]]
) -> dict[tuple[str, int, tuple[str, ...]], list[Episode]]:
    """Return matches by game, deal, and what ``key`` makes of the players, in the order of their first ones."""
    groups: dict[tuple[str, int, tuple[str, ...]], list[Episode]] = {}
    for episode in episodes:
        request = episode.request
        groups.setdefault((request.game, request.deal_seed, key(request.players)), []).append(episode)
    return groups


def _mean_gains(matches: Sequence[Episode], roles: Sequence[str]) -> dict[tuple[str, str], float]:
    """Return each (player, role)'s mean over the matches of its seats' mean return; roles by seat."""
    gains: dict[tuple[str, str], list[float]] = {}
    for match in matches:
        own: dict[tuple[str, str], list[float]] = {}
        for seat in zip(match.request.players, roles, match.returns, strict=True):
            own.setdefault(seat[:2], []).append(seat[2])
        for one, returns in own.items():
            gains.setdefault(one, []).append(fmean(returns))
    return {one: round(fmean(returns), _DECIMALS) for one, returns in gains.items()}


def _compared(before: Sequence[Skill], gains: Sequence[float]) -> list[Skill]:
    """Return skills after one comparison; the greatest gain is first, equal gains draw."""  # all [entries]
    after = _MODEL.rate([[_MODEL.create_rating(list(skill))] for skill in before], scores=list(gains))
    return [(rating.mu, rating.sigma) for [rating] in after]
