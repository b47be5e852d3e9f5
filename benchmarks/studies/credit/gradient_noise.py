"""The noise in a policy's gradient under M-GRPO's two alignments, on batches that one team plays."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from arena.lm.language_model import LanguageModel
    from league.config import RunConfig
    from learners.advantages.rule import Credited, State
    from learners.trajectories import Trajectory

BATCHES = 12
DRAWS = 8  # of each batch
Gradients = NDArray[np.float64]


def gradient_noise(run_dir: Path, policy: str) -> dict[str, dict[str, float]]:
    """Return ``noise_of`` of a finished run's policy by alignment, with m_grpo's mean d_k and d."""
    from league.config.context import run_context
    from league.config.load import load_run_config
    from league.training.checkpoints.checkpoint import load_checkpoint
    from league.training.learning.policies import policies_for_resume
    from league.training.loop.loop import League
    from learners.trajectories import to_trajectories

    config = load_run_config(run_dir)
    context = run_context(config, run_dir)
    state = load_checkpoint(config, run_dir, policies_for_resume(context))
    league = League(context, state)
    lm = state.policies[policy].lm
    weighted: list[Gradients] = []
    drawn: list[list[Gradients]] = []
    for number in range(BATCHES):
        episodes = league.play(league.draw_matches(state.iteration + 1 + number))
        trajectories = to_trajectories(episodes, context.roles.__getitem__, context.scales)
        mine = [i for i, one in enumerate(trajectories) if one.policy == policy]
        credited = _credited(config, trajectories, state.credit, "weight")
        weighted.append(_gradient(config, lm, trajectories, mine, credited))
        drawn.append([])
        for draw in range(DRAWS):
            known = state.credit | {"m_grpo": state.credit["m_grpo"] | {"calls": number * DRAWS + draw}}
            credited = _credited(config, trajectories, known, "resample")
            drawn[-1].append(_gradient(config, lm, trajectories, mine, credited))
    state.store.close()
    counts = list(state.credit["m_grpo"]["seen"].values())[-1]
    calls = [int(size) for size, times in counts["counts"].items() for _ in range(times)]
    facts = {"calls": fmean(calls), "d": float(counts["d"])}
    return {name: noise | facts for name, noise in noise_of(np.array(weighted), np.array(drawn)).items()}


def noise_of(weighted: Gradients, drawn: Gradients) -> dict[str, dict[str, float]]:
    """Return the variance of a batch's gradient over the squared norm of its mean, with weights and of one draw.

    ``weighted`` [B, P] holds one gradient a batch, ``drawn`` [B, S, P] one for each draw. The returned ``drawn`` is the
    part of a draw's variance that lies between draws of one batch. Variances are summed over the P parameters.
    """
    squared_norm = float((weighted.mean(0) ** 2).sum())
    between = fmean(float(drawn[:, draw].var(0, ddof=1).sum()) for draw in range(drawn.shape[1]))
    within = float(drawn.var(1, ddof=1).sum(-1).mean())
    return {
        "weight": {"figure": float(weighted.var(0, ddof=1).sum()) / squared_norm, "drawn": 0.0},
        "resample": {"figure": between / squared_norm, "drawn": within / squared_norm},
    }


def _credited(config: RunConfig, trajectories: Sequence[Trajectory], known: State, align: str) -> Credited:
    """Return the credit of a batch with one of the alignments; ``known`` is what rules remember."""
    from learners.advantages import assign_credit
    from learners.trajectories import Evidence

    settings = config.credit.settings_of("m_grpo").model_copy(update={"align": align})
    credit = config.credit.model_copy(update={"m_grpo": settings})
    return assign_credit(trajectories, [Evidence()] * len(trajectories), known, credit.rule_for, credit.settings_of)


def _gradient(
    config: RunConfig, lm: LanguageModel, trajectories: Sequence[Trajectory], mine: Sequence[int], credited: Credited
) -> Gradients:
    """Return the policy gradient of some of the trajectories, without entropy or divergences.  # [P]"""
    import torch

    from learners.batching import to_batch
    from learners.losses.batch_loss import BatchLoss
    from learners.losses.objective import Objective, Surrogate
    from learners.metric_sums import MetricSums
    from learners.normalisation import Normalisation

    average = Normalisation(config.objective.normalisation, config.objective.length)
    batch, advantages = [trajectories[i] for i in mine], [credited.advantages[i] for i in mine]
    rows = to_batch("", batch, advantages, {}, average, weights=[credited.weights[i] for i in mine])
    losses = BatchLoss(lm, None, rows, Objective(Surrogate("reinforce"), {}), max_tokens=8192)
    lm.model.zero_grad(set_to_none=True)
    for loss in losses.losses(0, MetricSums()):
        loss.backward()
    return torch.cat([p.grad.flatten() for p in lm.model.parameters() if p.grad is not None]).double().numpy()
