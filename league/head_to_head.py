"""Two players against each other: every deal in every seating, and what that shows, with intervals.

Matches of one deal share its luck, so they are not independent. The intervals are clustered by deal:
with N values y_i in G deals and ȳ their mean, Var(ȳ) = G/(G−1) Σ_deals (Σ_{i in deal} (y_i − ȳ))² / N²
(Liang and Zeger 1986), and the quantile is Student's with G − 1 degrees of freedom.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from arena.records import EndReason, Episode, MatchRequest
from arena.scheduler import play
from games.errors import UsageError
from games.registry import make_game
from games.seeds import derive_seed
from games.spec import GameSpec, Utility
from league.payoffs import Estimate
from league.players import Player

IN_FLIGHT = 1024
A, B = 0, 1


class Seated(NamedTuple):
    """A match and who sits where."""

    deal: int
    seating: tuple[int, ...]  # A or B by seat  # [seats]
    request: MatchRequest


class RoleResult(NamedTuple):
    """How the first player did in one role."""

    score: Estimate
    returns: Estimate
    matches: int


@dataclass(frozen=True, slots=True)
class HeadToHead:
    """What the matches of player A against player B show. Scores are A's, in [0, 1]; returns in the game's units."""

    players: tuple[str, str]
    spec: GameSpec
    seed: int
    seated: tuple[Seated, ...]
    episodes: tuple[Episode, ...]
    score: Estimate
    returns: tuple[Estimate, Estimate]  # mean return per seat, of A and of B
    lead: Estimate  # A's mean return minus B's
    by_role: Mapping[str, RoleResult]
    illegal_rates: tuple[float | None, float | None]  # of A's and of B's replies; None: never asked
    forfeits: int

    @property
    def share_of_optimum(self) -> float | None:
        """Return A's mean return divided by the best possible, for a cooperative game whose optimum is known."""
        if self.spec.utility is not Utility.IDENTICAL or not self.spec.optimum:
            return None
        return self.returns[A].mean / self.spec.optimum


def compare(
    players: tuple[Player, Player],
    matches: int,
    seed: int,
    on_episode: Callable[[Episode], None] | None = None,
) -> HeadToHead:
    """Play A against B, at least ``matches`` matches, and return what they show.

    Each seating is a batch of its own, because every player sits down with its own role cards.
    In a game of one seat they do not meet: each plays every deal by itself.
    """
    spec = players[A].spec
    seated = schedule(players, matches, seed)
    engines = {
        identity: one.engine
        for player in players
        for one in (player, *player.team)
        for members in one.members
        for identity, _ in members
    }
    episodes: dict[int, Episode] = {}
    for seating in seatings(spec.seats):
        roles = {spec.name: tuple(players[who].roles[seat] for seat, who in enumerate(seating))}
        roles |= {one.spec.name: one.roles for one in players[seating[0]].team}
        played = play(
            [match.request for match in seated if match.seating == seating],
            roles_of=roles.__getitem__,
            engine_of=engines.__getitem__,
            make_game=make_game,
            in_flight=IN_FLIGHT,
            on_episode=on_episode,
        )
        episodes.update((episode.request.index, episode) for episode in played)
    ordered = [episodes[match.request.index] for match in seated]
    names = [role.name for role in players[A].roles]
    return summarise((players[A].label, players[B].label), spec, seed, names, seated, ordered)


def schedule(players: tuple[Player, Player], matches: int, seed: int) -> list[Seated]:
    """Return whole deals, each in every seating, that make at least ``matches`` matches."""
    if matches < 1:
        raise UsageError(f"--matches {matches}: at least one match must be played.")
    spec = players[A].spec
    every = seatings(spec.seats)
    seated = []
    for index in range(math.ceil(matches / len(every)) * len(every)):
        deal, seating = index // len(every), every[index % len(every)]
        rng = random.Random(derive_seed(seed, "members", spec.name, index))
        request = MatchRequest(
            index=index,
            game=spec.name,
            deal_seed=derive_seed(seed, "deal", spec.name, deal),
            sample_seed=derive_seed(seed, "sample", spec.name, index),
            players=tuple(players[who].draw(seat, rng) for seat, who in enumerate(seating)),
            trained=(False,) * spec.seats,
            rule="head_to_head",
            cast=players[seating[0]].cast(rng),
        )
        seated.append(Seated(deal, seating, request))
    return seated


def seatings(seats: int) -> list[tuple[int, ...]]:
    """Return every way to seat A and B so that both take part; in one seat, first one and then the other."""
    if seats == 1:
        return [(A,), (B,)]
    return [seating for seating in itertools.product((A, B), repeat=seats) if len(set(seating)) == 2]


def summarise(
    players: tuple[str, str],
    spec: GameSpec,
    seed: int,
    role_names: Sequence[str],
    seated: Sequence[Seated],
    episodes: Sequence[Episode],
) -> HeadToHead:
    """Return what the played matches show. ``role_names`` are A's roles by seat."""
    outcomes = _outcomes(spec, seated, episodes)
    names = list(role_names) * (2 if spec.seats == 1 else 1)
    deals = [one.deal for one in outcomes]
    payoffs, span = (spec.min_return, spec.max_return), spec.max_return - spec.min_return
    scores = [score(one.returns, one.seating) for one in outcomes]
    returns = [[mean_return(one.returns, one.seating, who) for one in outcomes] for who in (A, B)]
    return HeadToHead(
        players=players,
        spec=spec,
        seed=seed,
        seated=tuple(seated),
        episodes=tuple(episodes),
        score=clustered_mean(scores, deals, (0.0, 1.0)),
        returns=(clustered_mean(returns[A], deals, payoffs), clustered_mean(returns[B], deals, payoffs)),
        lead=clustered_mean([a - b for a, b in zip(*returns, strict=True)], deals, (-span, span)),
        by_role=_by_role(spec, names, outcomes),
        illegal_rates=(_illegal_rate(seated, episodes, A), _illegal_rate(seated, episodes, B)),
        forfeits=sum(episode.end is EndReason.FORFEIT for episode in episodes),
    )


class _Outcome(NamedTuple):
    """What one comparison of A and B came to."""

    deal: int
    seating: tuple[int, ...]  # A or B by seat  # [seats]
    returns: tuple[float, ...]  # [seats]


def _outcomes(spec: GameSpec, seated: Sequence[Seated], episodes: Sequence[Episode]) -> list[_Outcome]:
    """Return each match; where there is one seat, what A and B made of each deal as if they had met."""
    matches = [_Outcome(m.deal, m.seating, e.returns) for m, e in zip(seated, episodes, strict=True)]
    if spec.seats > 1:
        return matches
    pairs = zip(matches[::2], matches[1::2], strict=True)
    return [_Outcome(a.deal, a.seating + b.seating, a.returns + b.returns) for a, b in pairs]


def score(returns: Sequence[float], seating: Sequence[int], seats: Sequence[int] | None = None) -> float:
    """Return A's share of the comparisons of its seats with B's: win 1, draw ½, loss 0.

    ``seats`` limits A to some of its seats.
    """
    mine = [returns[seat] for seat in (range(len(seating)) if seats is None else seats) if seating[seat] == A]
    theirs = [value for value, who in zip(returns, seating, strict=True) if who == B]
    points = [1.0 if my > their else 0.5 if my == their else 0.0 for my in mine for their in theirs]
    return sum(points) / len(points)


def mean_return(returns: Sequence[float], seating: Sequence[int], who: int) -> float:
    """Return the mean return over the seats of one player, in the game's units."""
    own = [value for value, sitting in zip(returns, seating, strict=True) if sitting == who]
    return sum(own) / len(own)


def clustered_mean(values: Sequence[float], clusters: Sequence[Hashable], bounds: tuple[float, float]) -> Estimate:
    """Return the mean of ``values`` [N] with a 95 % interval clustered by ``clusters`` [N], within ``bounds``.

    Where all clusters agree, the spread says nothing, so the interval allows for what could have been
    missed: with G clusters alike, others have a share of at most p = 1 − 0.025^(1/G), and those might
    lie anywhere within the bounds. One cluster gives no interval.
    """
    mean = math.fsum(values) / len(values)
    parts: defaultdict[Hashable, list[float]] = defaultdict(list)
    for value, cluster in zip(values, clusters, strict=True):
        parts[cluster].append(value - mean)
    count = len(parts)
    if count == 1:
        return Estimate(mean, None, None)
    variance = count / (count - 1) * math.fsum(math.fsum(part) ** 2 for part in parts.values()) / len(values) ** 2
    low, high = min(bounds[0], min(values)), max(bounds[1], max(values))  # a forfeit's price may lie outside
    if math.sqrt(variance) <= 1e-9 * (high - low):
        missed = 1.0 - 0.025 ** (1.0 / count)
        return Estimate(mean, mean - missed * (mean - low), mean + missed * (high - mean))
    half = student_quantile(count - 1) * math.sqrt(variance)
    return Estimate(mean, max(low, mean - half), min(high, mean + half))


def student_quantile(degrees: int) -> float:
    """Return the 97.5 % quantile of Student's t distribution."""
    from scipy.special import stdtrit  # slow to import

    return float(stdtrit(degrees, 0.975))


def _by_role(spec: GameSpec, role_names: Sequence[str], outcomes: Sequence[_Outcome]) -> dict[str, RoleResult]:
    """Return A's results by role; seats that share a role's name count together."""
    results = {}
    for name in dict.fromkeys(role_names):
        deals, scores, returns = [], [], []
        for one in outcomes:
            for seat, role_name in enumerate(role_names):
                if role_name == name and one.seating[seat] == A:
                    deals.append(one.deal)
                    scores.append(score(one.returns, one.seating, [seat]))
                    returns.append(one.returns[seat])
        results[name] = RoleResult(
            clustered_mean(scores, deals, (0.0, 1.0)),
            clustered_mean(returns, deals, (spec.min_return, spec.max_return)),
            len(deals),
        )
    return results


def _illegal_rate(seated: Sequence[Seated], episodes: Sequence[Episode], who: int) -> float | None:
    """Return the share of one player's replies that were illegal."""
    illegal = [
        turn.action is None
        for match, episode in zip(seated, episodes, strict=True)
        for turn in episode.turns
        if match.seating[turn.seat] == who
    ]
    return sum(illegal) / len(illegal) if illegal else None
