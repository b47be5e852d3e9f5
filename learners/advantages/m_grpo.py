"""M-GRPO (arXiv 2511.13288): a main role that opens submatches for sub-roles, any number of them in each rollout.

One query, K rollouts; rollout k has one main trajectory with return R_M and d_k >= 0 sub-trajectories of a role with
returns R_S. Both are compared within the query:

    A_M = (R_M - mean) / (std + epsilon)   over the K rollouts
    A_S = (R_S - mean) / (std + epsilon)   over the query's sub-trajectories of the role, each of weight 1 / d_k

so that a rollout counts once in the statistics however often it called the role. For the loss, each rollout that
called a role is brought to the same number d of sub-trajectories: the 99th percentile of d_k over the first
iterations of a run. The paper repeats some of the d_k at random where there are too few and drops some where there are
too many (``align = "resample"``). Each then occurs d / d_k times on average, and that is its weight by default
(``align = "weight"``). The paper computes the statistics of A_S after resampling, so they vary from draw to draw, and
since a z-score is not linear in them the mean over draws would not be the weighted loss. Here both settings use the
statistics of the expected draw, so it is.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from games.common.section import Positive, Section
from games.common.seeds import derive_seed
from learners.advantages.common import standardised
from learners.advantages.grpo import broadcast, in_groups
from learners.advantages.rule import Advantages, Credited, CreditRule, Need, State
from learners.groups import GroupKey, invocations, is_root
from learners.keys import join_names
from learners.trajectories import Evidence, Trajectory

PERCENTILE = 0.99  # share of a window's rollouts whose d_k is at most d


class Settings(Section):
    """``m_grpo``'s settings."""

    align: Literal["weight", "resample"] = Field(
        "weight",
        description="weight the submatches of a rollout by d / d_k, or repeat and drop them at random until "
        "there are d",
    )
    calibration: Positive = Field(10, description="iterations that fix d, the 99th percentile of d_k")


def m_grpo(
    trajectories: Sequence[Trajectory], _evidence: Sequence[Evidence], state: State, settings: Settings
) -> Credited:
    """Return z-scores within queries, of main roles and of each sub-role, for every turn, and aligned weights.

    Raises UsageError for uneven or short groups of main trajectories.
    """
    weights, after = align(trajectories, state, settings)
    return Credited(_z_scores(trajectories), weights, after)


def _z_scores(trajectories: Sequence[Trajectory]) -> Advantages:
    mains = [index for index, trajectory in enumerate(trajectories) if is_root(trajectory)]
    advantages = np.zeros(len(trajectories))
    advantages[mains] = in_groups("m_grpo", [trajectories[index] for index in mains], standardised)
    calls = invocations(trajectories)
    subs = [index for indices in calls.values() for index in indices]
    queries: dict[object, int] = {}
    labels = [queries.setdefault(key, len(queries)) for (key, _), indices in calls.items() for _ in indices]
    weights = [1 / len(indices) for indices in calls.values() for _ in indices]
    returns = [trajectories[index].match_return for index in subs]
    advantages[subs] = standardised(returns, np.array(labels, np.intp), weights)
    return broadcast(trajectories, advantages)


def align(trajectories: Sequence[Trajectory], state: State, settings: Settings) -> tuple[list[float], State]:
    """Return the weight of each trajectory in the loss [N], 1 for main trajectories, and the next state.

    ``settings.align`` is "weight" or "resample", whose weights are integers, 0 for dropped trajectories;
    ``settings.calibration`` is the window in iterations. The state holds, by "game/role", how often each d_k was seen,
    in how many iterations, and the resulting d; and the number of calls, which seeds the draws, so that equal states
    give equal draws, whatever the order of the batch.
    """
    calls = invocations(trajectories)
    calibrated = _calibrated(state.get("seen", {}), calls, settings.calibration)
    call = state.get("calls", 0)
    weights = [1.0] * len(trajectories)
    for (key, rollout), indices in calls.items():
        d = calibrated[_state_key(key)]["d"]
        shares = [d / len(indices)] * len(indices)
        if settings.align == "resample":
            indices.sort(key=lambda index: (trajectories[index].match, trajectories[index].seat))
            rng = random.Random(derive_seed("resample", call, key.start, key.game, key.role, key.seat, rollout))
            shares = [float(times) for times in multiplicities(len(indices), d, rng)]
        for index, share in zip(indices, shares, strict=True):
            weights[index] = share
    return weights, {"seen": calibrated, "calls": call + 1}


def multiplicities(count: int, size: int, rng: random.Random) -> list[int]:
    """Return how often each of ``count`` members occurs in a sample of ``size``: on average size / count times.

    Too few members: all of them, and random repeats, with replacement. Too many: a random ``size`` of them.
    """
    repeats = rng.choices(range(count), k=size - count) if count < size else ()
    members = range(count) if count <= size else rng.sample(range(count), size)
    times = Counter([*members, *repeats])
    return [times[index] for index in range(count)]


def _calibrated(state: State, calls: Mapping[tuple[GroupKey, int], Sequence[int]], window: int) -> State:
    """Return each role's counts and d after one more iteration; after the window they no longer change.

    d is the smallest number that d_k does not exceed in at least 99 % of the rollouts that called the role.
    """
    counts: dict[str, list[int]] = {}
    for (key, _), indices in calls.items():
        counts.setdefault(_state_key(key), []).append(len(indices))
    after = dict(state)
    for name, counts_R in counts.items():
        record = state.get(name, {"iterations": 0, "counts": {}})
        if record["iterations"] < window:
            total = Counter({int(size): times for size, times in record["counts"].items()}) + Counter(counts_R)
            d = int(np.quantile(list(total.elements()), PERCENTILE, method="inverted_cdf"))
            sizes = {str(size): total[size] for size in sorted(total)}
            after[name] = {"iterations": record["iterations"] + 1, "counts": sizes, "d": d}
    return after


def _state_key(key: GroupKey) -> str:
    """Return the key of a role's d in the state."""
    return join_names(key.game, key.role)


RULE = CreditRule(m_grpo, Settings, needs={Need.GROUPS}, across_roles=True)
