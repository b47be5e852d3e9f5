"""The draw: the rules' shares become matches, each with its own seeds.

Against a past opponent every seating is played on the same deal, so that no role is trained more
often than another, and only the learner's seat is trained. Each seating is played ``group_size`` times
on its deal, so that rules which compare within groups get whole ones, role by role. Opponents are drawn by systematic
sampling (Madow 1949): snapshot B is expected in exactly P(B) of a rule's matches.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena.records import MatchRequest
from games.errors import UsageError
from games.seeds import derive_seed
from games.spec import GameSpec
from league.config import MatchmakingConfig
from league.matchmaking.fictitious import fictitious
from league.matchmaking.pfsp import pfsp
from league.matchmaking.pool import OpponentPool
from league.matchmaking.self_play import self_play

PAST_RULES: dict[str, Callable[[OpponentPool], NDArray[np.float64]]] = {
    "fictitious": fictitious,
    "pfsp": pfsp,
}


class _Seating(NamedTuple):
    """A group of matches before they have indices and seeds."""

    rule: str
    deal: int  # place in the draw of the first seating on this deal
    players: tuple[str, ...]  # [seats]
    trained: tuple[bool, ...]  # [seats]


def draw_matches(
    *,
    config: MatchmakingConfig,
    run_seed: int,
    iteration: int,
    game: GameSpec,
    live: tuple[str, ...],
    learning: Collection[str],
    past: Mapping[str, Sequence[str]],
    win_rate: Callable[[str, str, str], float],
    matches: int,
    first_index: int,
) -> list[MatchRequest]:
    """Return the training matches of one game in one iteration, with indices from ``first_index`` on.

    ``live`` names the live policy by seat [seats], ``learning`` those that train now: a game that seats
    none of them is not played. ``past`` lists each policy's snapshots, oldest first. At most
    ``config.opponents`` different snapshots are met (one a policy, if that is more), and where a rule
    weighs them alike, the same ones in all games: each costs an engine a set of weights. While a policy
    has no snapshots, everything is self-play. Matches that a rule's whole deals leave over go to
    self-play; without self-play they are not played.
    Raises UsageError when not even one deal fits into ``matches``.
    """
    if not (learners := [seat for seat, policy in enumerate(live) if policy in learning]):
        return []
    rng = np.random.default_rng(derive_seed(run_seed, "draw", iteration))
    pools = _pools(config, game.name, live, past, win_rate)
    met = game.seats > 1 and all(pool.snapshots for pool in pools.values())
    picks = max(1, config.opponents // len(pools))
    rules = _active_rules(config, rng, picks) if met else {}
    deals = _deals(config, rules, matches // config.group_size, len(learners))
    alone = matches // config.group_size - len(learners) * sum(deals.values()) if config.self_play or not rules else 0
    seatings = [_Seating("self_play", number, *self_play(live, learning)) for number in range(alone)]
    for rule, extra in apportion(picks - len(rules), rules).items():
        if deals[rule]:
            hands = {policy: _hand(pool, PAST_RULES[rule](pool), 1 + extra, rng) for policy, pool in pools.items()}
            seatings += _seatings(rule, live, learners, hands, deals[rule], first_deal=len(seatings))
    if not seatings:
        raise _too_few(game, matches, config.group_size)
    return _requests(seatings, config.group_size, run_seed, first_index, game.name)


def _too_few(game: GameSpec, matches: int, group_size: int) -> UsageError:
    times = f", each played {group_size} times," if group_size > 1 else ""
    return UsageError(
        f"No match of {game.name} can be drawn: {matches} matches are too few for the {game.seats} seatings of a "
        f"deal{times} under each rule. Play more matches an iteration, or give matchmaking.self_play a weight."
    )


def apportion(total: int, weights: Mapping[str, float]) -> dict[str, int]:
    """Split ``total`` in proportion to the weights by largest remainders (Hamilton); ties go to the first."""
    if not weights:
        return {}
    quotas = {name: total * weight / sum(weights.values()) for name, weight in weights.items()}
    counts = {name: int(quota) for name, quota in quotas.items()}
    by_remainder = sorted(quotas, key=lambda name: counts[name] - quotas[name])
    for name in by_remainder[: total - sum(counts.values())]:
        counts[name] += 1
    return counts


def _active_rules(config: MatchmakingConfig, rng: np.random.Generator, picks: int) -> dict[str, float]:
    """Return the weights of the past rules that share this iteration's ``picks`` of opponents.

    Each takes at least one; where there are fewer picks than rules, the rules take turns at random.
    """
    weights = {rule: float(getattr(config, rule)) for rule in PAST_RULES if getattr(config, rule) > 0.0}
    if len(weights) <= picks:
        return weights
    shares = np.array(list(weights.values())) / sum(weights.values())
    chosen = rng.choice(len(weights), size=picks, replace=False, p=shares)
    rest = sum(weights.values()) / picks
    return {rule: rest for number, rule in enumerate(weights) if number in chosen}


def _deals(config: MatchmakingConfig, rules: Mapping[str, float], groups: int, learners: int) -> dict[str, int]:
    """Return how many deals each past rule plays, every one of them with the learner in each of its seats."""
    counts = apportion(groups, {"self_play": config.self_play, **rules}) if rules else {}
    return {rule: counts[rule] // learners for rule in rules}


def _pools(
    config: MatchmakingConfig,
    game: str,
    live: tuple[str, ...],
    past: Mapping[str, Sequence[str]],
    win_rate: Callable[[str, str, str], float],
) -> dict[str, OpponentPool]:
    """Return what the rules may look at, by the policy whose past selves are weighed."""
    return {
        policy: OpponentPool(past.get(policy, ()), _learners(policy, live), game, win_rate, config)
        for policy in sorted(set(live))
    }


def _learners(policy: str, live: tuple[str, ...]) -> tuple[str, ...]:
    """Return the live policies that may meet ``policy`` in another seat."""
    met = (live[:seat] + live[seat + 1 :] for seat, owner in enumerate(live) if owner == policy)
    return tuple(sorted({learner for others in met for learner in others}))


def _hand(pool: OpponentPool, probabilities: NDArray[np.float64], size: int, rng: np.random.Generator) -> list[str]:
    """Draw ``size`` snapshots, of which B is expected ``size`` * P(B) times, in random order."""
    cumulative = np.cumsum(probabilities)
    points = (rng.random() + np.arange(size)) / size * cumulative[-1]
    drawn = np.minimum(np.searchsorted(cumulative, points, side="right"), len(cumulative) - 1)
    return [pool.snapshots[number] for number in rng.permutation(drawn)]


def _seatings(
    rule: str,
    live: tuple[str, ...],
    learners: Sequence[int],
    hands: Mapping[str, Sequence[str]],
    deals: int,
    first_deal: int,
) -> Iterator[_Seating]:
    """Yield, deal by deal, a seating for each learner's seat; the others go round the table with it."""
    seats = len(live)
    for deal in range(deals):
        for learner in learners:
            players = list(live)
            for ahead in range(1, seats):
                seat = (learner + ahead) % seats
                hand = hands[live[seat]]
                players[seat] = hand[(deal + ahead - 1) % len(hand)]
            trained = tuple(seat == learner for seat in range(seats))
            yield _Seating(rule, first_deal + deal * len(learners), tuple(players), trained)


def _requests(
    seatings: Sequence[_Seating], group_size: int, run_seed: int, first_index: int, game: str
) -> list[MatchRequest]:
    """Return the matches of a draw with their indices and seeds, ``group_size`` of every seating."""
    every = (seating for seating in seatings for _ in range(group_size))
    return [
        MatchRequest(
            index=index,
            game=game,
            deal_seed=derive_seed(run_seed, "deal", first_index + seating.deal * group_size),
            sample_seed=derive_seed(run_seed, "sample", index),
            players=seating.players,
            trained=seating.trained,
            rule=seating.rule,
        )
        for index, seating in enumerate(every, first_index)
    ]
