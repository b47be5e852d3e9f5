"""When a policy is frozen, whether it may be, and what it goes on from.

Main policies freeze every ``snapshot_every`` iterations, if ``evaluation.gate`` lets them. Exploiters freeze by
AlphaStar's rules (Vinyals et al. 2019): once they win often enough, or after so many iterations; then a main
exploiter begins anew, a league exploiter with some probability. The snapshot comes before the reset.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import NormalDist, fmean, stdev

from safetensors.torch import load_file, save_file

from arena.records import Episode, MatchRequest
from games.seeds import derive_seed
from games.spec import GameSpec
from league.config import RunConfig
from league.matchmaking.pool import Member
from league.run_state import RunState
from learners.policy import Policy
from roles.role import Role

_BEGINNINGS = "beginnings"  # folder of a run


def exploiters_due(
    config: RunConfig, state: RunState, members: Sequence[Member], live: dict[str, tuple[str, ...]], iteration: int
) -> list[str]:
    """Return the exploiters that freeze after an iteration. ``live`` are the main policies by game and seat."""
    settings, due = config.exploiters, []
    for name, kind in config.exploiter_kinds.items():
        age = iteration - state.frozen_at.get(name, 0)
        met = sorted({policy for seats in live.values() for policy in seats})
        if kind == "league_exploiter":
            met = [member.id for member in members]
        if age >= settings.freeze_after or (
            age >= settings.freeze_from and _worst(state, name, met, live) > settings.freeze_at
        ):
            due.append(name)
    return due


def _worst(state: RunState, name: str, met: Sequence[str], live: dict[str, tuple[str, ...]]) -> float:
    """Return a player's lowest mean rate of winning over the games against any of those it should beat."""
    return min(fmean(state.payoffs.known(name, other, game).score for game in live) for other in met)


def begins_anew(config: RunConfig, name: str, iteration: int) -> bool:
    """Return whether an exploiter that was frozen after an iteration goes back to where it began."""
    if config.policy(name).learner == "main_exploiter":
        return True
    drawn = random.Random(derive_seed(config.seed, "begin anew", name, iteration)).random()
    return drawn < config.exploiters.league_reset


def keep_beginnings(run_dir: Path, policies: Sequence[Policy]) -> None:
    """Write the weights that exploiters go back to."""
    folder = run_dir / _BEGINNINGS
    for policy in policies:
        folder.mkdir(exist_ok=True)
        tensors = {name: weight.detach().contiguous() for name, weight in policy.parameters.items()}
        save_file(tensors, folder / f"{policy.name}.safetensors")


def go_back(run_dir: Path, state: RunState, name: str) -> None:
    """Let an exploiter begin anew: its weights, its optimiser, and what was known of its matches."""
    state.policies[name].begin_anew(load_file(run_dir / _BEGINNINGS / f"{name}.safetensors"))
    state.pending.pop(name, None)
    state.payoffs.begin_anew(name)


def gate_matches(
    config: RunConfig,
    policy: str,
    parent: str,
    newest: dict[str, str],
    spec: GameSpec,
    roles: Sequence[Role],
    first: int,
) -> list[MatchRequest]:
    """Return matches that compare a live policy with its last snapshot in the same seats on the same deals.

    In each deal all seats are first taken by the ``newest`` snapshots, then one of the policy's seats by the policy.
    """
    own = [seat for seat, role in enumerate(roles) if role.policy == policy]
    before = tuple(newest[role.policy] for role in roles)
    deals = -(-config.evaluation.matches // (len(own) + 1)) if own else 0
    requests: list[MatchRequest] = []
    for deal, seat in itertools.product(range(deals), [None, *own]):
        seeds = (
            derive_seed(config.seed, "gate deal", parent, spec.name, first, deal),
            derive_seed(config.seed, "gate sample", parent, spec.name, first, deal, -1 if seat is None else seat),
        )
        players = tuple(policy if place == seat else player for place, player in enumerate(before))
        index = first + len(requests)
        requests.append(MatchRequest(index, spec.name, *seeds, players, (False,) * spec.seats, "gate"))
    return requests


def gained(episodes: Sequence[Episode], policy: str, scale_of: Callable[[str], float]) -> tuple[float, float]:
    """Return the mean gain of a deal, in scaled returns, from putting the policy in, and its standard error."""
    deals: dict[tuple[str, int], list[Episode]] = {}
    for episode in episodes:
        deals.setdefault((episode.request.game, episode.request.deal_seed), []).append(episode)
    gains = []
    for (game, _), (baseline, *others) in deals.items():
        own = [(one, seat) for one in others for seat, player in enumerate(one.request.players) if player == policy]
        gains.append(fmean(one.returns[seat] - baseline.returns[seat] for one, seat in own) / scale_of(game))
    return fmean(gains), stdev(gains) / len(gains) ** 0.5


def surely_better(gain: float, error: float, confidence: float) -> bool:
    """Return whether a gain is above 0 with so much confidence (one-sided, normal)."""
    return gain > NormalDist().inv_cdf(confidence) * error
