"""The noise in a policy's gradient under M-GRPO's two alignments, on batch after batch that one team plays."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from arena.lm import LanguageModel
    from league.config import RunConfig
    from learners.advantages import Credit
    from learners.trajectories import Trajectory

BATCHES = 12
DRAWS = 8  # of each batch
Gradients = NDArray[np.float64]


def gradient_noise(run_dir: Path, policy: str) -> dict[str, dict[str, float]]:
    """Return by alignment what ``noise_of`` tells of a finished run's policy, and what m_grpo remembers."""
    from league.population import Population
    from league.run_state import load_state
    from league.settings import CONFIG_FILE, load, run_roles
    from league.start import reopened_policies
    from league.train import League
    from learners.advantages import compute_advantages
    from learners.trajectories import to_trajectories

    config = load(str(run_dir / CONFIG_FILE))
    roles = run_roles(config)
    state = load_state(config, run_dir, reopened_policies(config, roles, run_dir, Population(run_dir / "population")))
    league = League(config, run_dir, roles, state)
    lm, settings = state.policies[policy].lm, _credit("weight")
    weighted: list[Gradients] = []
    drawn: list[list[Gradients]] = []
    for number in range(BATCHES):
        episodes = league.play(league.draw_matches(config.iterations + 1 + number))
        trajectories = to_trajectories(episodes, roles.__getitem__, league.scales)
        advantages, _ = compute_advantages(trajectories, config.credit.rule_for, state.credit, settings)
        own = [(one, a) for one, a in zip(trajectories, advantages, strict=True) if one.policy == policy]
        batch, credited = [one for one, _ in own], [a for _, a in own]
        weighted.append(_gradient(config, lm, _weighed(config, batch, state.credit, "weight"), credited))
        drawn.append([])
        for draw in range(DRAWS):
            credit = state.credit | {"m_grpo": state.credit["m_grpo"] | {"calls": number * DRAWS + draw}}
            drawn[-1].append(_gradient(config, lm, _weighed(config, batch, credit, "resample"), credited))
    state.store.close()
    seen = list(state.credit["m_grpo"]["seen"].values())[-1]
    calls = [int(size) for size, times in seen["counts"].items() for _ in range(times)]
    facts = {"calls": fmean(calls), "d": float(seen["d"])}
    return {name: own | facts for name, own in noise_of(np.array(weighted), np.array(drawn)).items()}


def noise_of(weighted: Gradients, drawn: Gradients) -> dict[str, dict[str, float]]:
    """Return the variance of a batch's gradient over the squared norm of its mean, with weights and of one draw.

    ``weighted`` [B, P] holds one gradient a batch, ``drawn`` [B, S, P] one for each draw. Of the variance of a draw
    ``drawn`` is the part between draws of one batch. Variances are summed over the P parameters.
    """
    squared_norm = float((weighted.mean(0) ** 2).sum())
    between = fmean(float(drawn[:, draw].var(0, ddof=1).sum()) for draw in range(drawn.shape[1]))
    within = float(drawn.var(1, ddof=1).sum(-1).mean())
    return {
        "weight": {"figure": float(weighted.var(0, ddof=1).sum()) / squared_norm, "drawn": 0.0},
        "resample": {"figure": between / squared_norm, "drawn": within / squared_norm},
    }


def _credit(align: str) -> Credit:
    from learners.advantages import Credit

    return Credit(align=align)


def _weighed(config: RunConfig, batch: Sequence[Trajectory], credit: dict[str, object], align: str) -> list[Trajectory]:
    from learners.advantages import weigh_trajectories

    return weigh_trajectories(batch, config.credit.rule_for, credit, _credit(align))[0]


def _gradient(
    config: RunConfig, lm: LanguageModel, batch: Sequence[Trajectory], advantages: Sequence[Sequence[float]]
) -> Gradients:
    """Return the policy gradient, without entropy or divergences.  # [P]"""
    import torch

    from learners.batch_loss import BatchLoss
    from learners.batching import to_batch
    from learners.losses import Surrogate
    from learners.normalisation import Normalisation
    from learners.objective import Objective, Sums

    average = Normalisation(config.objective.normalisation, config.objective.length)
    rows = to_batch("", batch, advantages, {}, average)
    losses = BatchLoss(lm, None, rows, Objective(Surrogate("reinforce"), {}), budget=8192)
    lm.model.zero_grad(set_to_none=True)
    for loss in losses.losses(0, Sums()):
        loss.backward()
    return torch.cat([p.grad.flatten() for p in lm.model.parameters() if p.grad is not None]).double().numpy()
