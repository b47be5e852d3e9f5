"""The draw of an iteration's training matches, by the shares of the matchmaking rules, each with its own seeds.

Against past opponents every seating is played on the same deal, so that no role is trained more often
than another, and only the learner's seat is trained. Each seating is played ``group_size`` times on its
deal, so that credit rules that compare within groups get complete groups, role by role; with ``tree`` = n it is
played n^turns times, as a tree in which each turn has n replies: matches with the same path to a turn share the
seeds of all turns up to it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from arena.records import MatchRequest
from games.common.errors import UsageError
from games.common.seeds import derive_seed
from games.spec import GameSpec
from league.config.context import RunContext
from league.config.matchmaking import ExploitersConfig, MatchmakingConfig
from league.population.matchmaking.league_roles import LEAGUE_ROLES, Seats
from league.population.matchmaking.lineups import DrawContext, Lineup, LineupSampler
from league.population.matchmaking.self_play import self_play
from league.population.storage.members import Kind


class _Seating(NamedTuple):
    """A group of matches, before they have indices and seeds."""

    rule: str
    deal: int  # index in the draw of the first seating on this deal
    players: Lineup  # [seats]
    trained: tuple[bool, ...]  # [seats]


def draw_matches(
    context: RunContext,
    draw: DrawContext,
    *,
    iteration: int,
    learning: Sequence[str],
    matches: int,
    first_index: int,
    trains_in_submatches: bool = False,
) -> list[MatchRequest]:
    """Return the training matches of one game in one iteration, with indices from ``first_index`` on.

    ``learning`` names the policies that train now, main ones and others: a game that seats none of them is played only
    if a policy ``trains_in_submatches``. A learner meets at most ``matchmaking.opponents`` different players (one a
    policy, if that is more), the same ones in all games where a rule gives them equal weights, because each needs its
    own weights in an engine. The share of a rule without opponents goes to self-play. So do matches left over from
    complete deals, unless self-play has no weight; then they are not played. Raises UsageError when not even one deal
    fits into ``matches``.
    """
    config, game, run_seed = context.config.matchmaking, context.specs[draw.game], context.config.seed
    kinds, exploiters = context.config.league_roles, context.config.exploiters
    mains = [name for name in learning if name not in kinds]
    learners = [seat for seat, policy in enumerate(draw.seat_policies) if policy in mains]
    attackers = {name: kinds[name] for name in learning if name in kinds and len(draw.free_seats) > 1}
    if not (learners or attackers or trains_in_submatches):
        return []
    rng = np.random.default_rng(derive_seed(run_seed, "draw", iteration))
    sampler = LineupSampler(draw, config, rng)
    size, limit = config.matches_of_start(game.max_turns), max(1, config.opponents // max(1, sampler.policies))
    groups = matches // size
    seatings = _exploiter_seatings(exploiters, sampler, attackers, groups, limit)
    if learners or trains_in_submatches:
        of_main = _main_seatings(config, sampler, learners, mains, groups - len(seatings), limit)
        seatings += [seating._replace(deal=len(seatings) + seating.deal) for seating in of_main]
    if not seatings and not learners:
        return []  # it has exploiters alone, whose share is less than a deal here; they learn in other games
    if not seatings:
        raise _too_few(game, matches, size)
    requests = _requests(seatings, size, run_seed, first_index, game.name, config.explore)
    return _with_branch_seeds(requests, config.tree, game.max_turns, run_seed) if config.tree else requests


def _exploiter_seatings(
    config: ExploitersConfig,
    sampler: LineupSampler,
    attackers: Mapping[str, Kind],
    groups: int,
    limit: int,
) -> list[_Seating]:
    """Return the seatings in which policies without bound roles learn, each with its share of the groups."""
    context, seatings = sampler.context, list[_Seating]()
    for policy, kind in attackers.items():
        if LEAGUE_ROLES[kind].seats is Seats.ALL:
            seatings += _together_seatings(policy, kind, config, sampler, groups, limit, len(seatings))
            continue
        deals = int(groups * config.share) // len(context.free_seats)
        lineups = sampler.for_each_seat(policy, kind, config, deals, limit)
        everywhere = (policy,) * len(context.seat_policies)
        seatings += _seatings(kind, everywhere, lineups, deals, first_deal=len(seatings))
    return seatings


def _together_seatings(
    policy: str,
    kind: Kind,
    config: ExploitersConfig,
    sampler: LineupSampler,
    groups: int,
    limit: int,
    first: int,
) -> list[_Seating]:
    """Return the seatings in which a policy that takes all seats learns: among others' snapshots, or with itself."""
    context, number = sampler.context, int(groups * config.share)
    deals = int(number * config.together) // len(context.free_seats)
    lineups = sampler.for_all_seats(policy, kind, config, deals, limit)
    met = list(_seatings(kind, (policy,) * len(context.seat_policies), lineups, deals, first))
    alone = tuple(seat if seat in context.fixed else policy for seat in context.seat_policies)
    by_itself = range(first + len(met), first + number)
    return met + [_Seating(kind, deal, *self_play(alone, {policy})) for deal in by_itself]


def _main_seatings(
    config: MatchmakingConfig,
    sampler: LineupSampler,
    learners: Sequence[int],
    learning: Collection[str],
    groups: int,
    limit: int,
) -> list[_Seating]:
    """Return the seatings in which main policies learn, in self-play and against past opponents by their shares."""
    policies = sampler.context.seat_policies
    weights = config.opponent_shares
    usable = {rule: weight for rule, weight in weights.items() if len(sampler.context.free_seats) > 1 and weight > 0.0}
    active = {rule: weight for rule, weight in usable.items() if sampler.has_opponents(rule)}
    rules = _choose_rules(active, sampler.rng, limit)
    idle = sum(weights.values()) - sum(active.values())
    deals = _deals(config.self_play + idle if config.self_play else 0.0, rules, groups, len(learners))
    self_play_groups = groups - len(learners) * sum(deals.values()) if config.self_play or not rules else 0
    seatings = [_Seating("self_play", number, *self_play(policies, learning)) for number in range(self_play_groups)]
    for rule, extra in apportion(limit - len(rules), rules).items():
        if deals[rule]:
            lineups = sampler.for_main(rule, learners, deals[rule], 1 + extra)
            seatings += _seatings(rule, policies, lineups, deals[rule], first_deal=len(seatings))
    return seatings


def _too_few(game: GameSpec, matches: int, group_size: int) -> UsageError:
    """Return the error for ``matches`` that hold no complete deal."""
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


def _choose_rules(weights: Mapping[str, float], rng: np.random.Generator, limit: int) -> dict[str, float]:
    """Return the weights of the rules that draw opponents in this iteration, at most ``limit`` rules.

    Each rule draws at least one opponent; if there are more rules, some are chosen at random by weight.
    """
    if len(weights) <= limit:
        return dict(weights)
    shares = np.array(list(weights.values())) / sum(weights.values())
    chosen = rng.choice(len(weights), size=limit, replace=False, p=shares)
    weight = sum(weights.values()) / limit
    return {rule: weight for number, rule in enumerate(weights) if number in chosen}


def _deals(self_play_weight: float, rules: Mapping[str, float], groups: int, learners: int) -> dict[str, int]:
    """Return how many deals each rule plays, each deal with the learner in each of its seats."""
    counts = apportion(groups, {"self_play": self_play_weight, **rules}) if rules else {}
    return {rule: counts[rule] // learners for rule in rules}


def _seatings(
    rule: str, policies: Lineup, lineups: Mapping[int, Sequence[Lineup]], deals: int, first_deal: int
) -> Iterator[_Seating]:
    """Yield, deal by deal, a seating for each learner's seat, taken by its policy of ``policies``."""
    seats = len(policies)
    for deal in range(deals):
        for learner, drawn in lineups.items():
            players = (*drawn[deal][:learner], policies[learner], *drawn[deal][learner + 1 :])
            trained = tuple([seat == learner for seat in range(seats)])
            yield _Seating(rule, first_deal + deal * len(lineups), players, trained)


def _requests(
    seatings: Sequence[_Seating], group_size: int, run_seed: int, first_index: int, game: str, explore: float
) -> list[MatchRequest]:
    """Return the matches of a draw with their indices and seeds, ``group_size`` of every seating."""
    repeated = (seating for seating in seatings for _ in range(group_size))
    return [
        MatchRequest(
            index=index,
            game=game,
            deal_seed=derive_seed(run_seed, "deal", first_index + seating.deal * group_size),
            sample_seed=derive_seed(run_seed, "sample", index),
            players=seating.players,
            trained=seating.trained,
            rule=seating.rule,
            explore=_explore(seating, index, explore),
        )
        for index, seating in enumerate(repeated, first_index)
    ]


def _explore(seating: _Seating, index: int, share: float) -> tuple[float, ...]:
    """Return how much each seat of a match explores: one of them, by turns, while the others play as they do."""
    if not share or seating.rule != "self_play":
        return ()
    seats = len(seating.players)
    return tuple([share if seat == index % seats else 0.0 for seat in range(seats)])


def _with_branch_seeds(requests: Sequence[MatchRequest], tree: int, turns: int, run_seed: int) -> list[MatchRequest]:
    """Return matches with the branch seeds of complete trees, one after another; inner nodes have ``tree`` children."""
    branched = []
    for number, request in enumerate(requests):
        leaf = number % tree**turns
        nodes = [leaf // tree ** (turns - depth) for depth in range(1, turns + 1)]  # the path to the leaf
        first = request.index - leaf
        seeds = tuple(derive_seed(run_seed, "branch", first, depth, node) for depth, node in enumerate(nodes))
        branched.append(request._replace(branch=seeds))
    return branched
