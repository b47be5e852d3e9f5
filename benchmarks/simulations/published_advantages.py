"""Advantages as other trainers publish them, in their own arrays, beside the exact gradient of three small games.

    python -m benchmarks.simulations.published_advantages

prints the table of benchmarks/results/published_advantages.md: 16 batches of 512 matches in groups of 8, uniform play.
The formulas are written here from the papers and the trainers' documentation; ``league.credit_check`` calls them as it
would call the trainers' own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import league
from league.lab.credit.accuracy import Accuracy
from league.lab.credit.foreign import Signature
from league.lab.credit.matches import BatchPlan

GAMES = ("kuhn_poker", "leduc_poker", "stop_or_go")
PLAN = BatchPlan()


def trl_grpo(rewards: torch.Tensor, num_generations: int) -> torch.Tensor:
    """TRL's GRPO: z-scores of rewards [N] among each prompt's generations, unbiased standard deviation."""
    groups = rewards.view(-1, num_generations)
    scores = (groups - groups.mean(dim=1, keepdim=True)) / (groups.std(dim=1, keepdim=True) + 1e-4)
    return scores.flatten()


def verl_grpo(
    token_level_rewards: torch.Tensor,
    response_mask: torch.Tensor,
    index: np.ndarray,
    epsilon: float = 1e-6,
    norm_adv_by_std_in_grpo: bool = True,
) -> tuple[torch.Tensor, torch.Tensor]:
    """GRPO of verl: z-scores of the rows' summed rewards [N, T] by prompt, at every sampled token."""
    scores = token_level_rewards.sum(dim=-1)
    centred = torch.empty_like(scores)
    for prompt in np.unique(index):
        members = torch.from_numpy(np.flatnonzero(index == prompt))
        group = scores[members]
        spread = group.std() + epsilon if norm_adv_by_std_in_grpo else 1.0
        centred[members] = (group - group.mean()) / spread
    advantages = centred[:, None] * response_mask
    return advantages, advantages


def dr_grpo(
    token_level_rewards: torch.Tensor, response_mask: torch.Tensor, index: np.ndarray
) -> tuple[torch.Tensor, torch.Tensor]:
    """GRPO of verl without the division (Dr. GRPO)."""
    return verl_grpo(token_level_rewards, response_mask, index, norm_adv_by_std_in_grpo=False)


def verl_gae(
    token_level_rewards: torch.Tensor, values: torch.Tensor, response_mask: torch.Tensor, gamma: float, lam: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """GAE of verl over sampled tokens [N, T], those of observations skipped, whitened over the whole batch."""
    advantages = torch.zeros_like(token_level_rewards)
    following, carried = torch.zeros(len(values)), torch.zeros(len(values))
    for token in reversed(range(values.shape[1])):
        sampled = response_mask[:, token] > 0
        surprise = token_level_rewards[:, token] + gamma * following - values[:, token]
        carried = torch.where(sampled, surprise + gamma * lam * carried, carried)
        following = torch.where(sampled, values[:, token], following)
        advantages[:, token] = carried
    returns = advantages + values
    chosen = advantages[response_mask > 0]
    return (advantages - chosen.mean()) / (chosen.var() + 1e-8).sqrt() * response_mask, returns


def verl_gae_untaught(
    token_level_rewards: torch.Tensor, response_mask: torch.Tensor, gamma: float, lam: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """GAE of verl whose critic has learned nothing yet, and says 0."""
    return verl_gae(token_level_rewards, torch.zeros_like(token_level_rewards), response_mask, gamma, lam)


def mt_grpo(token_level_rewards: torch.Tensor, response_mask: torch.Tensor, index: np.ndarray) -> torch.Tensor:
    """MT-GRPO (arXiv 2505.11821) in verl's arrays: rewards [N, T] normalised by prompt and turn, then summed.

    A turn is a run of sampled tokens.
    """
    begins = response_mask.diff(dim=1, prepend=torch.zeros(len(response_mask), 1)) > 0
    turns = begins.cumsum(dim=1) - 1
    normalised = torch.zeros_like(token_level_rewards)
    for prompt in np.unique(index):
        members = torch.from_numpy(np.flatnonzero(index == prompt))
        for turn in range(int(turns.max()) + 1):
            at = begins[members] & (turns[members] == turn)
            paid = (token_level_rewards[members] * (turns[members] == turn)).sum(dim=1)[at.any(dim=1)]
            if len(paid) > 1:
                scores = (paid - paid.mean()) / (paid.std(correction=0) + 1e-6)
                normalised[members] = normalised[members].masked_scatter(at, scores)
    return normalised.flip(1).cumsum(dim=1).flip(1) * response_mask


def prime_rl_default(inputs: Any) -> list[list[float]]:
    """prime-rl's default: a group's rewards less their mean, at every token."""
    rewards = torch.tensor([rollout["reward"] for rollout in inputs.rollouts])
    return inputs.broadcast((rewards - rewards.mean()).tolist())  # type: ignore[no-any-return]


PUBLISHED: dict[str, tuple[Callable[..., Any], Signature]] = {
    "GRPO, TRL": (trl_grpo, "trl"),
    "GRPO, verl": (verl_grpo, "verl"),
    "Dr. GRPO, verl": (dr_grpo, "verl"),
    "reward − group mean, prime-rl": (prime_rl_default, "prime_rl"),
    "GAE, verl, exact critic": (verl_gae, "verl"),
    "GAE, verl, critic at 0": (verl_gae_untaught, "verl"),
    "MT-GRPO, by turn": (mt_grpo, "verl"),
}


def row(name: str, game: str, plan: BatchPlan = PLAN) -> Accuracy:
    """Return how near a published function comes to the exact gradient of a game."""
    function, signature = PUBLISHED[name]
    return league.credit_check(function, signature, game=game, plan=plan).rules[1].overall


def cells(found: Accuracy) -> tuple[str, ...]:
    """Return bias with its interval, noise, and matches for a sign, as the page has them."""
    bias = "–"
    if found.bias is not None and found.bias.low is not None and found.bias.high is not None:
        bias = f"{found.bias.mean:.2f} ({found.bias.low:.2f}–{found.bias.high:.2f})"
    noise = "–" if found.noise is None else f"{found.noise:.2f}"
    return bias, noise, "never" if found.sign is None else f"{found.sign:,}"


def main() -> None:
    """Print the table."""
    print("| advantage | " + " | ".join(f"{game}: bias | noise | sign" for game in GAMES) + " |")
    print("| --- |" + " --- | --- | --- |" * len(GAMES))
    for name in PUBLISHED:
        print(f"| {name} | " + " | ".join(" | ".join(cells(row(name, game))) for game in GAMES) + " |")


if __name__ == "__main__":
    main()
