"""Credit of stated predictions (``shaping.prediction``): a prediction is paid for coming true, and its tokens alone.

A text that a card's slot has written is a turn of its own, so its credit is no other turn's. With h = 1 for a
prediction that came true and 0 for one that did not, w the weight with the role's factor, and the mean over the
update's predictions of the same (game, role, policy) with the same number in their match,

    A_k <- A_k + w (h - mean h)   where turn k is a prediction whose outcome its seat was shown;   else A_k as it was

The expected 0/1 score is greatest for the likeliest act. The game's returns, and so its sums over seats, stay as they
are, and so do the targets of critics.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from games.common.errors import UsageError
from learners.advantages.common import centred, label_ids
from learners.trajectories import Evidence, Trajectory


def with_stated(
    trajectories: Sequence[Trajectory],
    evidence: Sequence[Evidence],
    advantages: Sequence[Sequence[float]],
    factors: Sequence[float],
) -> Sequence[Sequence[float]]:
    """Return the advantages with the credit of predictions; the same object where none is credited.

    ``factors`` are w, by trajectory  # [N]. Raises UsageError where all legal replies are credited, drawn or not.
    """
    places, keys, hits = [], [], []
    for i, (trajectory, facts, factor) in enumerate(zip(trajectories, evidence, factors, strict=True)):
        cell = facts.stated or () if factor else ()
        known = [(k, hit) for k, hit in enumerate(cell) if hit is not None]
        if known and facts.reply_credits is not None:
            raise UsageError(
                f"shaping.prediction credits the prediction that was drawn, but the values of {trajectory.game}/"
                f"{trajectory.role} credit all legal replies. Choose another values.estimator, or set "
                "shaping.prediction.weight = 0."
            )
        places += [(i, k) for k, _ in known]
        keys += [(trajectory.game, trajectory.role, trajectory.policy, number) for number, _ in enumerate(known)]
        hits += [hit for _, hit in known]
    if not hits:
        return advantages
    credited = [list(row) for row in advantages]
    for (i, k), above in zip(places, centred(np.array(hits), label_ids(keys)).tolist(), strict=True):
        credited[i][k] += factors[i] * above
    return credited
