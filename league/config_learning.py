"""The tables of the configuration that say how policies learn: credit, critic, objective, optimiser, alarms."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from league.sections import NonNegative, Positive, Section, Share

LearnerKind = Literal["main", "main_exploiter", "league_exploiter"]
SurrogateName = Literal["reinforce", "ppo", "gspo", "dpo"]


class PolicyConfig(Section):
    """One policy: what its weights are, and when it trains. Roles bind to policies by ``roles.policy``."""

    learner: LearnerKind = Field(
        "main",
        description="main: roles bind to it; an exploiter takes every seat in turn, to beat main or the whole league",
    )
    kind: Literal["full", "lora"] = Field("full", description="all weights of its own, or a LoRA adapter on the base")
    rank: Positive = Field(8, description="lora: rank of the adapter")
    alpha: float = Field(16.0, gt=0.0, description="lora: the adapter's output is scaled by alpha / rank")
    targets: tuple[str, ...] = Field((), description="lora: names of the adapted modules; none: every linear layer")
    frozen: bool = Field(False, description="plays, but is never trained")
    every: Positive = Field(1, description="iterations whose trajectories make one update of it")
    matches: Positive | None = Field(
        None, description="most matches of each game in one update of it, in whole groups; None: all it has gathered"
    )
    learning_rate: NonNegative | None = Field(None, description="its own rate at the start; None: the learner's")
    learning_rate_end: NonNegative | None = Field(None, description="its own rate at the end; None: as the start")
    inner_steps: Positive | None = Field(None, description="its own optimiser steps on one batch; None: the learner's")
    objective: SurrogateName | None = Field(None, description="its own surrogate; None: objective.name")


class CreditConfig(Section):
    """How returns become advantages."""

    rule: str = Field("rae", description="advantage rule of every role; see docs/credit.md for the list")
    rules: dict[str, str] = Field({}, description='another rule for a role, as "game/role" = "rule"')
    gamma: Share = Field(1.0, description="discount of later turn rewards within a match")
    decay: Share = Field(0.95, description="rae: how much of the old baseline a fold keeps (alpha)")
    fold: Literal["batch", "trajectory"] = Field("batch", description="rae: fold the batch mean, or each return")
    baseline: Literal["role", "game"] = Field("role", description="rae, mars: a mean for each role, or one for all")
    level: Literal["turn", "trajectory"] = Field(
        "turn", description="mars: rewards from a turn on, or the whole return for every turn"
    )
    trace_decay: Share = Field(0.95, description="gae_turn: lambda")
    step_weight: NonNegative = Field(1.0, description="gigpo: weight omega of the step groups")
    step_gamma: Share = Field(0.95, description="gigpo: discount of the step groups' returns")
    step_spread: bool = Field(False, description="gigpo: divide by the standard deviation within a step group")
    alignment: float = Field(1.0, description="advantage_alignment: weight beta of the other seat's advantages")
    regret_focus: NonNegative = Field(
        0.0, description="regret: weigh matches by exp(this times their regret); 0: alike"
    )
    align: Literal["weight", "resample"] = Field(
        "weight",
        description="m_grpo: weigh what a rollout opened by d / d_k, or repeat and drop at random until it is d",
    )
    calibration: Positive = Field(10, description="m_grpo: iterations that fix d, the 99th percentile of d_k")
    scale_returns: bool = Field(True, description="divide returns by half the game's range of returns first")

    def rule_for(self, game: str, role: str) -> str:
        """Return the name of a role's rule."""
        return self.rules.get(f"{game}/{role}", self.rule)


class CriticConfig(Section):
    """The value heads that ``gae_turn`` estimates turns with: one for each role, on the policy's last hidden state."""

    hidden_size: Positive = Field(64, description="width of a head's hidden layer")
    learning_rate: NonNegative = Field(1e-3, description="its own AdamW's rate")
    steps: Positive = Field(8, description="optimiser steps on one batch")


class ObjectiveConfig(Section):
    """What an update minimises."""

    name: SurrogateName = Field(
        "ppo", description="surrogate objective; dpo prefers the better of two replies, and needs credit rule malt"
    )
    normalisation: Literal["constant", "token_mean", "sequence_mean", "role_mean", "rollout_mean"] = Field(
        "constant", description="how a game's tokens are averaged; a choice reply counts as one token"
    )
    length: Positive = Field(1, description="constant: what a reply's sum over tokens is divided by")
    clip_low: NonNegative = Field(0.2, description="ppo, gspo: lower clip of the ratio, 1 - clip_low")
    clip_high: NonNegative = Field(0.2, description="ppo, gspo: upper clip of the ratio, 1 + clip_high")
    dual_clip: float | None = Field(None, gt=1.0, description="ppo, gspo: bound c on the loss of negative advantages")
    dpo_beta: float = Field(
        0.1, gt=0.0, description="dpo: beta, how dear it is to leave the policy's weights before training"
    )
    truncate: float | None = Field(
        None, gt=0.0, description="weigh by min(p learner / p sampler, truncate), without gradient; None: off"
    )
    kl_old: NonNegative = Field(0.0, description="weight of KL(policy | policy before the update), nats")
    kl_old_end: NonNegative | None = Field(
        None, description="its weight at the end, reached geometrically; None: constant"
    )
    kl_reference: NonNegative = Field(0.0, description="weight of KL(policy | its weights before training), nats")
    kl_estimator: Literal["k1", "k2", "k3"] = Field(
        "k2", description="estimate of kl_reference for free replies; exact for choice replies"
    )
    entropy: NonNegative = Field(0.05, description="weight of the entropy bonus at the start")
    entropy_end: NonNegative | None = Field(
        None, description="weight at the end, reached geometrically; None: constant"
    )
    epo: NonNegative = Field(0.0, description="weight of keeping entropy within a band of its running mean")
    epo_low: NonNegative = Field(0.8, description="epo: lower end of the band, kappa_lo, as a share of the mean")
    epo_high: NonNegative = Field(1.2, description="epo: upper end of the band, kappa_hi")
    epo_decay: Share = Field(0.9, description="epo: how much of the old running mean an update keeps")
    magnet: NonNegative = Field(0.0, description="weight of KL(policy | magnet)")
    magnet_end: NonNegative | None = Field(
        None, description="its weight at the end, reached geometrically; None: constant"
    )
    magnet_every: Positive = Field(100, description="updates between two refreshes of the magnet")
    magnet_uniform: Share = Field(0.1, description="share of the uniform policy mixed into the magnet (choice replies)")


class LearnerConfig(Section):
    """The optimiser (AdamW)."""

    learning_rate: NonNegative = Field(5e-4, description="learning rate at the start")
    learning_rate_end: NonNegative | None = Field(None, description="learning rate at the end; None: constant")
    inner_steps: Positive = Field(4, description="optimiser steps on one batch")
    minibatch_prompts: Positive = Field(
        256, description="a game with more different prompts is spread over the inner steps, so many or more in each"
    )
    optimizer: Literal["adamw", "adamw8bit"] = Field(
        "adamw", description="adamw8bit keeps its moments in 8 bits, by bitsandbytes"
    )
    weight_decay: NonNegative = Field(0.0, description="AdamW weight decay")
    max_grad_norm: float = Field(1.0, gt=0.0, description="gradients are clipped to this norm")
    micro_batch_tokens: Positive = Field(8192, description="tokens in one forward and backward pass")
    checkpointing: bool = Field(
        False, description="free replies: keep only each layer's input, and compute it again backward"
    )
    processes: Positive = Field(
        1, description="processes that take each update together, on one machine a GPU each; under torchrun its own"
    )
    sharded: bool = Field(
        False, description="cut the weights in training up over the processes (FSDP2), instead of copying them"
    )
    max_gap: float = Field(0.05, gt=0.0, description="mean |log p learner - log p sampler| (nats) that stops the run")


class AlarmsConfig(Section):
    """When the run tells that a policy is going wrong. Alarms are shown; they never stop a run."""

    warmup: Positive = Field(10, description="iterations that fix what is normal for a run")
    reasoning: Share = Field(0.25, description="reasoning below this share of its length in the warmup, in tokens")
    repetition: Share = Field(0.5, description="echo trap: share of repeated replies or phrases above this, while")
    variance: Share = Field(0.5, description="echo trap: the variance of returns is below this share of the warmup's")
    drift: NonNegative = Field(0.3, description="a role's mean advantage, in its own standard deviations, beyond this")
    entropy_low: NonNegative = Field(0.02, description="entropy below this, in nats a turn")
    entropy_high: float | None = Field(None, gt=0.0, description="entropy above this, in nats a turn; None: no limit")
