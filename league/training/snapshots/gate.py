"""The gates: a main policy is frozen only if it is better than its last snapshot.

``evaluation.gate``        significantly, by its mean return on fresh deals;
``evaluation.gate_flips``  match by match on a suite of deals that stays the same over the run: more matches that were
                           not won are won now than the other way round, and of those at most a share (AgentDevel,
                           arXiv:2601.04620: flips show a regression that a mean hides).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import NormalDist, fmean, stdev
from typing import NamedTuple

from arena.records import Episode, MatchRequest
from games.common.seeds import derive_seed
from games.spec import GameSpec
from league.config.context import RunContext
from league.theory.confidence_sequence import confidence_interval, looks


def gate_matches(
    context: RunContext,
    policy: str,
    parent: str,
    newest: dict[str, str],
    game: str,
    first: int,
    suite: bool = False,
) -> list[MatchRequest]:
    """Return matches, numbered from ``first``, that compare a live policy with its last snapshot on the same deals.

    The deals are fresh or, for the ``suite``, always the same, and all matches of a deal have the same random draws. In
    the first match of each deal the ``newest`` snapshots take all seats; in each further match the live policy replaces
    its snapshot in one of its seats.
    """
    config, spec, roles = context.config, context.specs[game], context.roles[game]
    policy_seats = [seat for seat, role in enumerate(roles) if role.policy == policy]
    snapshots = tuple(role.policy if role.fixed else newest[role.policy] for role in roles)
    deals = -(-config.evaluation.matches // (len(policy_seats) + 1)) if policy_seats else 0
    requests: list[MatchRequest] = []
    for deal, live_seat in itertools.product(range(deals), [None, *policy_seats]):
        stream = -1 if live_seat is None else live_seat
        seeds = (
            derive_seed(config.seed, "gate deal", parent, spec.name, first, deal),
            derive_seed(config.seed, "gate sample", parent, spec.name, first, deal, stream),
        )
        if suite:
            seeds = (
                derive_seed(config.seed, "suite deal", spec.name, deal),
                derive_seed(config.seed, "suite sample", spec.name, deal),
            )
        players = tuple(policy if seat == live_seat else snapshot for seat, snapshot in enumerate(snapshots))
        index = first + len(requests)
        requests.append(MatchRequest(index, spec.name, *seeds, players, (False,) * spec.seats, "gate"))
    return requests


class Flip(NamedTuple):
    """A match of the suite that one of the two players wins and the other does not."""

    game: str
    deal_seed: int
    sample_seed: int
    seat: int
    before: float  # the last snapshot's return
    after: float  # the live policy's

    @property
    def fixed(self) -> bool:
        """Whether the live policy is the one that wins it."""
        return self.after > self.before


def find_flips(episodes: Sequence[Episode], policy: str, spec_of: Callable[[str], GameSpec]) -> tuple[list[Flip], int]:
    """Return the flips among the matches of ``gate_matches``, and how many pairs of matches were compared.

    A match is won where its return is above the middle of the game's range.
    """
    flips, pairs = list[Flip](), 0
    for baseline, episode, seat in _pairs(episodes, policy):
        spec, request = spec_of(episode.request.game), episode.request
        middle = (spec.min_return + spec.max_return) / 2.0
        before, after = baseline.returns[seat], episode.returns[seat]
        pairs += 1
        if (before > middle) != (after > middle):
            flips.append(Flip(request.game, request.deal_seed, request.sample_seed, seat, before, after))
    return flips, pairs


def outweigh(flips: Sequence[Flip], pairs: int, limit: float) -> bool:
    """Return whether more matches were fixed than broken, and at most the share ``limit`` of all were broken."""
    broken = sum(not flip.fixed for flip in flips)
    return len(flips) - broken > broken and broken <= limit * pairs


def _pairs(episodes: Sequence[Episode], policy: str) -> Iterator[tuple[Episode, Episode, int]]:
    """Yield, for each seat that the live policy took in a deal, the snapshots' match, its own, and the seat."""
    for baseline, *attempts in _by_deal(episodes).values():
        for episode in attempts:
            for seat, player in enumerate(episode.request.players):
                if player == policy:
                    yield baseline, episode, seat


def _by_deal(episodes: Sequence[Episode]) -> dict[tuple[str, int], list[Episode]]:
    """Return the matches of each game and deal, in order: the snapshots' own first."""
    deals: dict[tuple[str, int], list[Episode]] = {}
    for episode in episodes:
        deals.setdefault((episode.request.game, episode.request.deal_seed), []).append(episode)
    return deals


def estimate_gain(episodes: Sequence[Episode], policy: str, scale_of: Callable[[str], float]) -> tuple[float, float]:
    """Return the mean gain per deal from seating the live policy, in scaled returns, and its standard error."""
    gains = [gain / scale_of(game) for game, of_game in _gains(episodes, policy).items() for gain in of_game]
    return fmean(gains), stdev(gains) / len(gains) ** 0.5


def _gains(episodes: Sequence[Episode], policy: str) -> dict[str, list[float]]:
    """Return, by game, each deal's gain from seating the live policy, in the game's units."""
    gains: dict[str, list[float]] = {}
    for (game, _), (baseline, *attempts) in _by_deal(episodes).items():
        differences = [
            episode.returns[seat] - baseline.returns[seat]
            for episode in attempts
            for seat, player in enumerate(episode.request.players)
            if player == policy
        ]
        gains.setdefault(game, []).append(fmean(differences))
    return gains


def play_until_decided(
    play: Callable[[Sequence[MatchRequest]], Sequence[Episode]],
    by_game: Mapping[str, Sequence[MatchRequest]],
    policy: str,
    span_of: Callable[[str], float],
    confidence: float,
) -> tuple[list[Episode], bool]:
    """Play a gate's matches, the same number of deals of every game, until it is decided.

    Return them, and whether the live policy is better with this confidence. An observation is the mean over games of
    half of a deal's gain as a share of the game's range, plus ½. Its bounds come from a confidence sequence: each holds
    with probability ``confidence``, no matter how often one looks. Play also ends where the policy is surely worse.
    """
    deals = {game: len({request.deal_seed for request in requests}) for game, requests in by_game.items() if requests}
    sizes = {game: len(by_game[game]) // count for game, count in deals.items()}  # matches of a deal
    episodes, deals_done, better = list[Episode](), 0, False
    for look in looks(min(deals.values())):
        new: list[MatchRequest] = []
        for game, size in sizes.items():
            new += by_game[game][deals_done * size : look * size]
        episodes += play(new)
        gains, deals_done = _gains(episodes, policy), look
        shares = zip(*([gain / span_of(game) for gain in of_game] for game, of_game in gains.items()), strict=True)
        observations = [0.5 + min(max(fmean(share), -1.0), 1.0) / 2.0 for share in shares]
        low, high = confidence_interval(observations, 2.0 * confidence - 1.0)
        better = low > 0.5
        if better or high < 0.5:
            break
    return episodes, better


def significantly_positive(gain: float, error: float, confidence: float) -> bool:
    """Return whether a gain with this standard error is above 0 at this confidence (one-sided, normal)."""
    return gain > NormalDist().inv_cdf(confidence) * error
