"""The gate: a main policy is frozen only if it is significantly better than its last snapshot (``evaluation.gate``)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from statistics import NormalDist, fmean, stdev

from arena.records import Episode, MatchRequest
from games.common.seeds import derive_seed
from games.spec import GameSpec
from league.config import RunConfig
from roles.role import Role


def gate_matches(
    config: RunConfig,
    policy: str,
    parent: str,
    newest: dict[str, str],
    spec: GameSpec,
    roles: Sequence[Role],
    first: int,
) -> list[MatchRequest]:
    """Return matches, numbered from ``first``, that compare a live policy with its last snapshot on the same deals.

    In the first match of each deal the ``newest`` snapshots take all seats; in each further match the live policy
    replaces its snapshot in one of its seats.
    """
    policy_seats = [seat for seat, role in enumerate(roles) if role.policy == policy]
    snapshots = tuple(role.policy if role.given else newest[role.policy] for role in roles)
    deals = -(-config.evaluation.matches // (len(policy_seats) + 1)) if policy_seats else 0
    requests: list[MatchRequest] = []
    for deal, live_seat in itertools.product(range(deals), [None, *policy_seats]):
        stream = -1 if live_seat is None else live_seat
        seeds = (
            derive_seed(config.seed, "gate deal", parent, spec.name, first, deal),
            derive_seed(config.seed, "gate sample", parent, spec.name, first, deal, stream),
        )
        players = tuple(policy if seat == live_seat else snapshot for seat, snapshot in enumerate(snapshots))
        index = first + len(requests)
        requests.append(MatchRequest(index, spec.name, *seeds, players, (False,) * spec.seats, "gate"))
    return requests


def estimate_gain(episodes: Sequence[Episode], policy: str, scale_of: Callable[[str], float]) -> tuple[float, float]:
    """Return the mean gain of a deal from seating the live policy, in scaled returns, and its standard error."""
    deals: dict[tuple[str, int], list[Episode]] = {}
    for episode in episodes:
        deals.setdefault((episode.request.game, episode.request.deal_seed), []).append(episode)
    gains = []
    for (game, _), (baseline, *attempts) in deals.items():
        differences = [
            episode.returns[seat] - baseline.returns[seat]
            for episode in attempts
            for seat, player in enumerate(episode.request.players)
            if player == policy
        ]
        gains.append(fmean(differences) / scale_of(game))
    return fmean(gains), stdev(gains) / len(gains) ** 0.5


def significantly_positive(gain: float, error: float, confidence: float) -> bool:
    """Return whether a gain with this standard error is above 0 at this confidence (one-sided, normal)."""
    return gain > NormalDist().inv_cdf(confidence) * error
