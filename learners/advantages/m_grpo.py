"""M-GRPO (arXiv 2511.13288): a main role that opens matches for sub-roles, any number of them in each rollout.

One query, K rollouts; rollout k has one main trajectory with return R_M and d_k >= 0 sub-trajectories of a role with
returns R_S. Both are compared within the query:

    A_M = (R_M - mean) / (std + epsilon)   over the K rollouts
    A_S = (R_S - mean) / (std + epsilon)   over the query's sub-trajectories of the role, each of weight 1 / d_k

so that a rollout counts once in the statistics however often it called the role. For the loss, each rollout that
called a role is brought to the same number d of sub-trajectories: the 99th percentile of d_k over the first
iterations of a run. The paper repeats some of the d_k at random where there are too few and drops some where there are
too many (``align = "resample"``). Each is then there d / d_k times on average, and that is its weight by default
(``align = "weight"``). The paper takes the statistics of A_S over what was drawn, which moves them from draw to
draw, and since a z-score is not linear in them the mean over draws would not be the weighted loss. Here both ways have
the statistics of the expected draw, so it is.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from games.seeds import derive_seed
from learners.advantages.grpo import broadcast, in_groups
from learners.advantages.sums import standardised
from learners.groups import GroupKey, invocations, is_root
from learners.trajectories import Trajectory

PERCENTILE = 0.99  # share of a window's rollouts that need not be cut to d
State = dict[str, Any]


def m_grpo(trajectories: Sequence[Trajectory], state: State, _settings: Any) -> tuple[list[list[float]], State]:
    """Return z-scores within queries, of main roles and of each sub-role, for every turn.

    Raises UsageError for uneven or short groups of main trajectories.
    """
    mains = [place for place, one in enumerate(trajectories) if is_root(one)]
    advantages = np.zeros(len(trajectories))
    advantages[mains] = in_groups("m_grpo", [trajectories[place] for place in mains], standardised)
    calls = invocations(trajectories)
    subs = [place for places in calls.values() for place in places]
    queries: dict[object, int] = {}
    labels = [queries.setdefault(key, len(queries)) for (key, _), places in calls.items() for _ in places]
    weights = [1 / len(places) for places in calls.values() for _ in places]
    returns = [trajectories[place].match_return for place in subs]
    advantages[subs] = standardised(returns, np.array(labels, np.intp), weights)
    return broadcast(trajectories, advantages), state


def align(trajectories: Sequence[Trajectory], state: State, settings: Any) -> tuple[list[float], State]:
    """Return the weight of each trajectory in the loss [N], 1 for main trajectories, and what to remember.

    ``settings.align`` is "weight" or "resample", whose weights are whole numbers, 0 for what is dropped;
    ``settings.calibration`` is the window in iterations. The state holds, by "game/role", how often each d_k was seen
    and in how many iterations, and then the d that was found; and the number of calls, which seeds the draws:
    equal states draw alike, whatever the order of the batch.
    """
    calls = invocations(trajectories)
    seen = _calibrated(state.get("seen", {}), calls, settings.calibration)
    number = state.get("calls", 0)
    weights = [1.0] * len(trajectories)
    for (key, rollout), places in calls.items():
        d = seen[_owner(key)]["d"]
        shares = [d / len(places)] * len(places)
        if settings.align == "resample":
            places.sort(key=lambda place: (trajectories[place].match, trajectories[place].seat))
            rng = random.Random(derive_seed("resample", number, key.start, key.game, key.role, key.seat, rollout))
            shares = [float(times) for times in multiplicities(len(places), d, rng)]
        for place, share in zip(places, shares, strict=True):
            weights[place] = share
    return weights, {"seen": seen, "calls": number + 1}


def multiplicities(count: int, size: int, rng: random.Random) -> list[int]:
    """Return how often each of ``count`` is there when they are brought to ``size``: on average size / count times.

    Too few: all of them, and random ones again, with replacement. Too many: a random ``size`` of them.
    """
    again = rng.choices(range(count), k=size - count) if count < size else ()
    kept = range(count) if count <= size else rng.sample(range(count), size)
    times = Counter([*kept, *again])
    return [times[place] for place in range(count)]


def _calibrated(seen: State, calls: Mapping[tuple[GroupKey, int], Sequence[int]], window: int) -> State:
    """Return what is known of each role after one more iteration: within the window d is that of all seen so far.

    d is the least number that at least 99 % of the rollouts which called the role do not exceed.
    """
    counts: dict[str, list[int]] = {}
    for (key, _), places in calls.items():
        counts.setdefault(_owner(key), []).append(len(places))
    after = dict(seen)
    for name, counts_R in counts.items():
        known = seen.get(name, {"iterations": 0, "counts": {}})
        if known["iterations"] < window:
            total = Counter({int(size): times for size, times in known["counts"].items()}) + Counter(counts_R)
            d = int(np.quantile(list(total.elements()), PERCENTILE, method="inverted_cdf"))
            sizes = {str(size): total[size] for size in sorted(total)}
            after[name] = {"iterations": known["iterations"] + 1, "counts": sizes, "d": d}
    return after


def _owner(key: GroupKey) -> str:
    """Return what a d is kept for."""
    return f"{key.game}/{key.role}"
