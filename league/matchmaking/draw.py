"""The draw: the rules' shares become matches, each with its own seeds.

Against past opponents every seating is played on the same deal, so that no role is trained more
often than another, and only the learner's seat is trained. Each seating is played ``group_size`` times
on its deal, so that rules which compare within groups get whole ones, role by role; with ``tree`` = n
n^turns times, as the tree in which each turn has n replies: matches that share the way to a turn share
the seeds of all turns up to it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from arena.records import MatchRequest
from games.errors import UsageError
from games.seeds import derive_seed
from games.spec import GameSpec
from league.config_matchmaking import ExploitersConfig, MatchmakingConfig
from league.matchmaking.opponents import JOINT_RULES, PAST_RULES, Lineup, Opponents, Scene
from league.matchmaking.pool import Kind
from league.matchmaking.self_play import self_play


class _Seating(NamedTuple):
    """A group of matches before they have indices and seeds."""

    rule: str
    deal: int  # place in the draw of the first seating on this deal
    players: Lineup  # [seats]
    trained: tuple[bool, ...]  # [seats]


def draw_matches(
    *,
    config: MatchmakingConfig,
    exploiters: ExploitersConfig,
    run_seed: int,
    iteration: int,
    game: GameSpec,
    scene: Scene,
    learning: Collection[str],
    exploiting: Mapping[str, Kind],
    matches: int,
    first_index: int,
    below: bool = False,
) -> list[MatchRequest]:
    """Return the training matches of one game in one iteration, with indices from ``first_index`` on.

    ``learning`` names the main policies that train now, ``exploiting`` the exploiters with their kinds: a game that
    seats none of them is played only if one trains ``below``, in the matches that it opens. At most
    ``config.opponents`` different players are met by a learner (one a policy, if that is more), the same ones in
    all games where a rule weighs them alike: each costs an engine a set of weights. A rule with nobody to meet leaves
    its share to self-play. Matches that whole deals leave over go there too, or are not played without it.
    Raises UsageError when not even one deal fits into ``matches``.
    """
    learners = [seat for seat, policy in enumerate(scene.live) if policy in learning]
    attackers = exploiting if game.seats > 1 else {}
    if not (learners or attackers or below):
        return []
    rng = np.random.default_rng(derive_seed(run_seed, "draw", iteration))
    opponents = Opponents(scene, config, rng)
    size, picks = config.matches_of_start(game.max_turns), max(1, config.opponents // opponents.policies)
    groups = matches // size
    seatings = _of_exploiters(exploiters, opponents, game.seats, attackers, groups, picks)
    if learners or below:
        seatings += _of_mains(config, opponents, scene, learners, learning, groups - len(seatings), picks, rng)
    if not seatings:
        raise _too_few(game, matches, size)
    requests = _requests(seatings, size, run_seed, first_index, game.name)
    return _branched(requests, config.tree, game.max_turns, run_seed) if config.tree else requests


def _of_exploiters(
    config: ExploitersConfig, opponents: Opponents, seats: int, attackers: Mapping[str, Kind], groups: int, picks: int
) -> list[_Seating]:
    """Return the seatings in which exploiters learn, each with its share of the groups."""
    seatings: list[_Seating] = []
    for policy, kind in attackers.items():
        deals = int(groups * config.share) // seats
        drawn = opponents.of_exploiter(policy, kind, config, deals, picks)
        seatings += _seatings(kind, (policy,) * seats, drawn, deals, first_deal=len(seatings))
    return seatings


def _of_mains(
    config: MatchmakingConfig,
    opponents: Opponents,
    scene: Scene,
    learners: Sequence[int],
    learning: Collection[str],
    groups: int,
    picks: int,
    rng: np.random.Generator,
) -> list[_Seating]:
    """Return the seatings in which main policies learn, self-play and past opponents by their shares."""
    weights = {rule: float(getattr(config, rule)) for rule in (*PAST_RULES, *JOINT_RULES)}
    met = len(scene.live) > 1
    active = {rule: weight for rule, weight in weights.items() if met and weight > 0.0 and opponents.can_meet(rule)}
    rules = _sharing(active, rng, picks)
    idle = sum(weights.values()) - sum(active.values())
    deals = _deals(config.self_play + idle if config.self_play else 0.0, rules, groups, len(learners))
    alone = groups - len(learners) * sum(deals.values()) if config.self_play or not rules else 0
    seatings = [_Seating("self_play", number, *self_play(scene.live, learning)) for number in range(alone)]
    for rule, extra in apportion(picks - len(rules), rules).items():
        if deals[rule]:
            drawn = opponents.of_main(rule, learners, deals[rule], 1 + extra)
            seatings += _seatings(rule, scene.live, drawn, deals[rule], first_deal=len(seatings))
    return seatings


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


def _sharing(weights: Mapping[str, float], rng: np.random.Generator, picks: int) -> dict[str, float]:
    """Return the weights of the past rules that share this iteration's ``picks`` of opponents.

    Each takes at least one; where there are fewer picks than rules, the rules take turns at random.
    """
    if len(weights) <= picks:
        return dict(weights)
    shares = np.array(list(weights.values())) / sum(weights.values())
    chosen = rng.choice(len(weights), size=picks, replace=False, p=shares)
    rest = sum(weights.values()) / picks
    return {rule: rest for number, rule in enumerate(weights) if number in chosen}


def _deals(alone: float, rules: Mapping[str, float], groups: int, learners: int) -> dict[str, int]:
    """Return how many deals each past rule plays, every one of them with the learner in each of its seats."""
    counts = apportion(groups, {"self_play": alone, **rules}) if rules else {}
    return {rule: counts[rule] // learners for rule in rules}


def _seatings(
    rule: str, own: Lineup, lineups: Mapping[int, Sequence[Lineup]], deals: int, first_deal: int
) -> Iterator[_Seating]:
    """Yield, deal by deal, a seating for each seat that the learner takes with its policy of ``own``."""
    seats = len(own)
    for deal in range(deals):
        for learner, drawn in lineups.items():
            players = (*drawn[deal][:learner], own[learner], *drawn[deal][learner + 1 :])
            trained = tuple([seat == learner for seat in range(seats)])
            yield _Seating(rule, first_deal + deal * len(lineups), players, trained)


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


def _branched(requests: Sequence[MatchRequest], tree: int, turns: int, run_seed: int) -> list[MatchRequest]:
    """Return matches with the branches of whole trees, one tree after another; an inner node has ``tree`` children."""
    branched = []
    for place, request in enumerate(requests):
        leaf = place % tree**turns
        nodes = [leaf // tree ** (turns - depth) for depth in range(1, turns + 1)]  # the path to the leaf
        first = request.index - leaf
        seeds = tuple(derive_seed(run_seed, "branch", first, depth, node) for depth, node in enumerate(nodes))
        branched.append(request._replace(branch=seeds))
    return branched
