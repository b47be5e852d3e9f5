"""MALT (arXiv 2412.01928): credit for generator, verifier and refiner from a tree of their replies.

From one start the generator replies n times, the verifier n times to each of these, the refiner n times to each of
those: n^3 matches, which share their turns as far as their branches are equal (``matchmaking.tree`` = n). The value of
a reply is the mean outcome of the matches that go through it:

    V(refinement) = outcome    V(critique) = mean of its refinements' V    V(answer) = mean of its critiques' V
    A = V - mean V of its siblings, itself included

This is the policy-gradient form. The paper calls a reply good if V > 1/2, and prefers every good reply to every bad one
of its siblings (``sibling_pairs``, for the objective ``dpo``). A reply that many matches go through counts once: each
of its trajectories has the weight 1 / their number.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from games.common.section import Section
from learners.advantages.grpo import broadcast
from learners.advantages.rule import Credited, CreditRule, Need, State
from learners.advantages.trees import means_by_label, tree_of
from learners.trajectories import Evidence, Trajectory


def malt(
    trajectories: Sequence[Trajectory], _evidence: Sequence[Evidence], state: State, _settings: Section
) -> Credited:
    """Return each reply's value less its siblings' mean; its weight is 1 / the number of matches that go through it.

    Raises UsageError unless the trajectories form whole trees.
    """
    tree, returns = tree_of(trajectories), np.array([t.match_return for t in trajectories])
    values = means_by_label(returns, tree.replies)
    advantages = broadcast(trajectories, values - means_by_label(returns, tree.parents))
    return Credited(advantages, (1.0 / tree.matches).tolist(), state)


RULE = CreditRule(malt, Section, needs={Need.TREE}, across_roles=True)
