"""Head to head: two players on every deal in every seating, with scores, returns and their intervals.

Matches of one deal share its luck, so they are not independent. The intervals are clustered by deal:
with N values y_i in G deals and ȳ their mean, Var(ȳ) = G/(G−1) Σ_deals (Σ_{i in deal} (y_i − ȳ))² / N²
(Liang and Zeger 1986), and the quantile is Student's with G − 1 degrees of freedom.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from arena.records import EndReason, Episode, MatchRequest
from arena.scheduler import play
from games.common.errors import UsageError
from games.common.seeds import derive_seed
from games.registry import make_game
from games.spec import GameSpec, Utility
from league.population.players.player import Player
from league.population.results.judges import verdicts
from league.population.storage.identity import with_notes
from league.theory.statistics import Estimate, clustered_mean
from roles.role import Role

A, B = 0, 1
MOST_MIXED = 6  # seats of a game that is played in every mixture of two players: 62 of them
Interval = Callable[[Sequence[float], Sequence[int], tuple[float, float]], Estimate]  # of values [N] by deal [N]
MOST_MATCHES = 1_000_000  # of a pair; they and their records take some gigabytes


class ScheduledMatch(NamedTuple):
    """A match to be played, with its deal and seating."""

    deal: int
    seating: tuple[int, ...]  # A or B by seat  # [seats]
    request: MatchRequest


class RoleResult(NamedTuple):
    """Player A's results in one role."""

    score: Estimate
    returns: Estimate
    matches: int


class JudgeResult(NamedTuple):
    """The quality of one player's verdicts."""

    agreement: Estimate  # share that agrees with the truth
    position_bias: Estimate | None  # towards the side that is shown first, −1 to 1; None: asked in one order only
    matches: int


class Winner(StrEnum):
    """Which player is stronger, if it is decided."""

    A = "a"
    B = "b"
    LEVEL = "level"  # within a margin
    OPEN = "open"


class Decided(NamedTuple):
    """The result of matches that continued until they were decided."""

    winner: Winner
    confidence: float
    margin: float | None  # of a level verdict, as a share of the game's scale; None: not requested
    lead: Estimate  # A's mean return minus B's, with an interval of this confidence that holds at any stopping time


@dataclass(frozen=True, slots=True)
class HeadToHead:
    """The result of matches between A and B. Scores are A's, in [0, 1]; returns are in the game's units."""

    players: tuple[str, str]
    spec: GameSpec
    seed: int
    matches: tuple[ScheduledMatch, ...]
    episodes: tuple[Episode, ...]  # of ``matches``, in their order
    score: Estimate
    returns: tuple[Estimate, Estimate]  # mean return per seat, of A and of B
    lead: Estimate  # A's mean return minus B's
    by_role: Mapping[str, RoleResult]
    illegal_rates: tuple[float | None, float | None]  # of A's and of B's replies; None: no replies
    forfeits: int
    judges: tuple[JudgeResult | None, JudgeResult | None] = (None, None)  # A and B as judges, where the truth is known
    decision: Decided | None = None  # if matches continued until decided; then all intervals account for that

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
    most_seatings: int | None = None,
) -> HeadToHead:
    """Play A against B in at least ``matches`` matches and return the result.

    Each seating is a batch of its own, because every player has its own role cards.
    In a game of one seat A and B do not meet: each plays every deal alone.
    """
    spec, scheduled = players[A].spec, schedule(players, matches, seed, most_seatings)
    episodes = play_scheduled(players, scheduled, on_episode)
    return summarise((players[A].label, players[B].label), spec, seed, role_names(players), scheduled, episodes)


def role_names(players: tuple[Player, Player]) -> list[str]:
    """Return A's roles by seat, by which results are reported."""
    return [role.name for role in players[A].roles]


def play_scheduled(
    players: tuple[Player, Player],
    scheduled: Sequence[ScheduledMatch],
    on_episode: Callable[[Episode], None] | None = None,
) -> list[Episode]:
    """Play matches and return their episodes in their order."""
    engines = players[A].engines() | players[B].engines()
    episodes: dict[int, Episode] = {}
    for seating in seatings(players[A].spec):
        played = play(
            [match.request for match in scheduled if match.seating == seating],
            roles_of=roles_by_game(players, seating).__getitem__,
            engine_of=engines.__getitem__,
            make_game=make_game,
            on_episode=on_episode,
        )
        episodes.update((episode.request.index, episode) for episode in played)
    return [episodes[match.request.index] for match in scheduled]


def roles_by_game(players: tuple[Player, Player], seating: tuple[int, ...]) -> dict[str, tuple[Role, ...]]:
    """Return the role cards of a match, every player's own, and of its submatches, by game."""
    roles = {players[A].spec.name: tuple(players[side].roles[seat] for seat, side in enumerate(seating))}
    return roles | {teammate.spec.name: teammate.roles for teammate in players[seating[0]].team}


def schedule(
    players: tuple[Player, Player], matches: int, seed: int, most_seatings: int | None = None
) -> list[ScheduledMatch]:
    """Return at least ``matches`` matches: whole deals, each in every seating or in the first ``most_seatings``."""
    if matches < 1:
        raise UsageError(f"--matches {matches}: at least one match must be played.")
    if matches > MOST_MATCHES:
        raise UsageError(f"--matches {matches:,}: at most {MOST_MATCHES:,} matches of two players are held in memory.")
    spec = players[A].spec
    cycle, kept = seatings(spec)[:most_seatings], dict(players[A].kept + players[B].kept)
    scheduled = []
    for index in range(math.ceil(matches / len(cycle)) * len(cycle)):
        deal, seating = index // len(cycle), cycle[index % len(cycle)]
        rng = random.Random(derive_seed(seed, "members", spec.name, index))
        request = MatchRequest(
            index=index,
            game=spec.name,
            deal_seed=derive_seed(seed, "deal", spec.name, deal),
            sample_seed=derive_seed(seed, "sample", spec.name, index),
            players=tuple(players[side].draw(seat, rng) for seat, side in enumerate(seating)),
            trained=(False,) * spec.seats,
            rule="head_to_head",
            cast=players[seating[0]].cast(rng),
        )
        [request] = with_notes([request], kept)
        scheduled.append(ScheduledMatch(deal, seating, request))
    return scheduled


def seatings(spec: GameSpec) -> list[tuple[int, ...]]:
    """Return the seatings with both A and B; teams stay whole; beyond ``MOST_MIXED`` seats one sits alone in each."""
    if 1 < spec.seats <= MOST_MIXED and not spec.teams:
        return [seating for seating in itertools.product((A, B), repeat=spec.seats) if len(set(seating)) == 2]
    parts = spec.teams[:1] or [(seat,) for seat in range(spec.seats)]
    firsts = [tuple(A if seat in part else B for seat in range(spec.seats)) for part in parts]
    return [seating for first in firsts for seating in (first, tuple(1 - side for side in first))]  # one seat: A, B


def summarise(
    players: tuple[str, str],
    spec: GameSpec,
    seed: int,
    role_names: Sequence[str],
    matches: Sequence[ScheduledMatch],
    episodes: Sequence[Episode],
    interval: Interval = clustered_mean,
) -> HeadToHead:
    """Return the result of the played matches. ``role_names`` are A's roles by seat.

    ``interval`` makes all estimates of scores and returns; it differs if the results were looked at before the end.
    """
    outcomes = outcomes_of(spec, [(m.deal, m.seating, e.returns) for m, e in zip(matches, episodes, strict=True)])
    names = list(role_names) * (2 if spec.seats == 1 else 1)
    deals = [outcome.deal for outcome in outcomes]
    payoffs, span = (spec.min_return, spec.max_return), spec.max_return - spec.min_return
    scores = [score(outcome.returns, outcome.seating) for outcome in outcomes]
    returns = [[mean_return(outcome.returns, outcome.seating, side) for outcome in outcomes] for side in (A, B)]
    return HeadToHead(
        players=players,
        spec=spec,
        seed=seed,
        matches=tuple(matches),
        episodes=tuple(episodes),
        score=interval(scores, deals, (0.0, 1.0)),
        returns=(interval(returns[A], deals, payoffs), interval(returns[B], deals, payoffs)),
        lead=interval([a - b for a, b in zip(*returns, strict=True)], deals, (-span, span)),
        by_role=results_by_role(spec, names, outcomes, interval),
        illegal_rates=(_illegal_rate(matches, episodes, A), _illegal_rate(matches, episodes, B)),
        forfeits=sum(episode.end is EndReason.FORFEIT for episode in episodes),
        judges=(_judge(spec, matches, episodes, A), _judge(spec, matches, episodes, B)),
    )


class Meeting(NamedTuple):
    """The returns of one comparison of A with B."""

    deal: int
    seating: tuple[int, ...]  # A or B by seat  # [seats]
    returns: tuple[float, ...]  # [seats]


def outcomes_of(spec: GameSpec, matches: Iterable[tuple[int, tuple[int, ...], tuple[float, ...]]]) -> list[Meeting]:
    """Return one outcome a match (deal, seating, returns); in a game of one seat, one a deal, as if A met B in it."""
    outcomes = [Meeting(*match) for match in matches]
    if spec.seats > 1:
        return outcomes
    pairs = zip(outcomes[::2], outcomes[1::2], strict=True)
    return [Meeting(a.deal, a.seating + b.seating, a.returns + b.returns) for a, b in pairs]


def score(returns: Sequence[float], seating: Sequence[int], seats: Sequence[int] | None = None) -> float:
    """Return A's mean score over all pairs of one of its seats with one of B's: win 1, draw ½, loss 0.

    ``seats`` restricts A to some of its seats.
    """
    returns_a = [returns[seat] for seat in (range(len(seating)) if seats is None else seats) if seating[seat] == A]
    returns_b = [value for value, side in zip(returns, seating, strict=True) if side == B]
    points = [1.0 if a > b else 0.5 if a == b else 0.0 for a in returns_a for b in returns_b]
    return sum(points) / len(points)


def mean_return(returns: Sequence[float], seating: Sequence[int], player: int) -> float:
    """Return the mean return over the seats of one player, A or B, in the game's units."""
    values = [value for value, side in zip(returns, seating, strict=True) if side == player]
    return sum(values) / len(values)


def results_by_role(
    spec: GameSpec, role_names: Sequence[str], outcomes: Sequence[Meeting], interval: Interval = clustered_mean
) -> dict[str, RoleResult]:
    """Return A's results by the roles that it had; seats whose roles have the same name count together."""
    results = {}
    for name in dict.fromkeys(role_names):
        deals, scores, returns = [], [], []
        for outcome in outcomes:
            for seat, role_name in enumerate(role_names):
                if role_name == name and outcome.seating[seat] == A:
                    deals.append(outcome.deal)
                    scores.append(score(outcome.returns, outcome.seating, [seat]))
                    returns.append(outcome.returns[seat])
        if deals:
            bounds = (spec.min_return, spec.max_return)
            results[name] = RoleResult(
                interval(scores, deals, (0.0, 1.0)), interval(returns, deals, bounds), len(deals)
            )
    return results


def _judge(
    spec: GameSpec, matches: Sequence[ScheduledMatch], episodes: Sequence[Episode], player: int
) -> JudgeResult | None:
    """Return how well player A or B judges; None if it gave no verdict."""
    given_verdicts = [v for v in verdicts(spec.name, episodes) if matches[v.match].seating[v.seat] == player]
    if not given_verdicts:
        return None
    deals = [matches[verdict.match].deal for verdict in given_verdicts]
    biased = [
        (v.position_bias, deal) for v, deal in zip(given_verdicts, deals, strict=True) if v.position_bias is not None
    ]
    bias = clustered_mean([b for b, _ in biased], [deal for _, deal in biased], (-1.0, 1.0)) if biased else None
    agreement = clustered_mean([verdict.agreement for verdict in given_verdicts], deals, (0.0, 1.0))
    return JudgeResult(agreement, bias, len(given_verdicts))


def _illegal_rate(matches: Sequence[ScheduledMatch], episodes: Sequence[Episode], player: int) -> float | None:
    """Return the share of illegal replies among those of one player, A or B; None without replies."""
    illegal = [
        turn.action is None
        for match, episode in zip(matches, episodes, strict=True)
        for turn in episode.turns
        if match.seating[turn.seat] == player
    ]
    return sum(illegal) / len(illegal) if illegal else None
