"""How policies learn: ``[policies]``, ``[objective]``, ``[imitation]``, ``[optimizer]``, ``[alarms]``, ``[distil]``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, create_model, model_validator

from games.common.registry import family, name_of
from games.common.section import Count, LearningRate, NonNegative, Positive, Section, Share
from league.config.names import LeagueRoleName, TrainerName
from learners.losses import LOSSES
from learners.losses.imitation import ImitationConfig as ImitationConfig

DEFAULT_LEAGUE_ROLE = "main"  # of a policy that roles bind to

if TYPE_CHECKING:  # a type checker cannot follow what is made at run time
    SurrogateName = str
    KlEstimator = str
else:
    SurrogateName, KlEstimator = name_of("losses", "objective"), name_of("kl_estimators")


class PolicyConfig(Section):
    """One policy: its kind of weights, and when it trains. Roles bind to policies by ``roles.policy``."""

    league_role: LeagueRoleName = Field(
        DEFAULT_LEAGUE_ROLE,
        description="main: roles are bound to it; exploiters take every seat in turn, to beat main or the whole "
        "league; a partner takes all seats and learns with itself, see exploiters.together",
    )
    held_out: bool = Field(
        False,
        description="partner: nobody meets its snapshots in training; they are the strangers for ad-hoc teamwork",
    )
    weights: Literal["full", "lora"] = Field("full", description="full: all weights; lora: a LoRA adapter on the base")
    model: dict[str, Any] = Field(
        {},
        description="its own base model: the keys of [model] that differ, such as source or hidden_size",
    )
    rank: Positive = Field(8, description="lora: rank of the adapter")
    alpha: float = Field(16.0, gt=0.0, description="lora: the adapter's output is scaled by alpha / rank")
    targets: tuple[str, ...] = Field((), description="lora: names of the adapted modules; none: every linear layer")
    frozen: bool = Field(False, description="it plays, but is never trained")
    every: Positive = Field(1, description="iterations whose trajectories make one update")
    tokens: Count = Field(
        0,
        description="fewest reply tokens in one update, in whole iterations: keeps updates of similar size where "
        "lengths change; 0: no minimum",
    )
    matches: Positive | None = Field(
        None, description="most matches of each game in one update, in whole groups; None: all gathered ones"
    )
    learning_rate: LearningRate | None = Field(None, description="its own rate at the start; None: the optimizer's")
    learning_rate_end: LearningRate | None = Field(None, description="its own rate at the end; None: as the start")
    inner_steps: Positive | None = Field(
        None, description="its own optimiser steps on one batch; None: the optimizer's"
    )
    objective: SurrogateName | None = Field(None, description="its own surrogate objective; None: objective.name")
    average: float | None = Field(
        None,
        gt=0.0,
        lt=1.0,
        description="snapshots hold a running mean of its weights, of which each update keeps this share; None: the "
        "weights themselves",
    )

    @property
    def bound(self) -> bool:
        """Whether it is a main policy, which roles bind to."""
        return bool(family("league_roles")[self.league_role].bound)

    @property
    def adapted(self) -> bool:
        """Whether the policy is an adapter on a shared base, not a full model."""
        return self.weights == "lora"


class _Chosen(Section):
    name: SurrogateName = Field(
        "ppo",
        description="surrogate objective; dpo prefers the better of two replies, and needs a credit rule of trees; "
        "dmpo prefers the better of two whole matches of one start; kto distinguishes good whole matches from bad ones",
    )
    normalisation: Literal["constant", "token_mean", "sequence_mean", "role_mean", "rollout_mean", "prompt_mean"] = (
        Field("constant", description="how a game's tokens are averaged; a choice reply counts as one token")
    )
    length: Positive = Field(1, description="constant: divisor of a reply's sum over tokens")


if TYPE_CHECKING:
    SurrogateKeys = _Chosen
else:  # the project's own surrogates share keys of [objective]; a plugin's has a table of its own there
    _keys = {name: field for entry in LOSSES.values() for name, field in entry.settings.model_fields.items()}
    _fields = {name: (field.annotation, field) for name, field in _keys.items()}
    SurrogateKeys = create_model("SurrogateKeys", __base__=_Chosen, __module__=__name__, **_fields)


class ObjectiveConfig(SurrogateKeys):
    """What an update minimises."""

    truncate: float | None = Field(
        None, gt=0.0, description="weight by min(p learner / p sampler, truncate), without gradient; None: off"
    )
    mismatch: Literal["truncate", "mask", "sequence_mask", "drop"] = Field(
        "truncate",
        description="what happens to tokens whose p learner / p sampler is far from 1: truncate weights all tokens by "
        "it, up to truncate; mask weights by it and drops tokens outside mismatch_low to mismatch_high; sequence_mask "
        "drops a reply by its tokens' geometric mean; drop drops a reply if one token is outside",
    )
    mismatch_low: Share = Field(0.5, description="mask, sequence_mask, drop: least p learner / p sampler")
    mismatch_high: float = Field(2.0, ge=1.0, description="mask, sequence_mask, drop: greatest p learner / p sampler")
    policy_gradient: NonNegative = Field(
        1.0, description="weight of the advantages; 0: only other terms, such as distill, are learned"
    )
    distill: NonNegative = Field(
        0.0, description="weight of the divergence from the teacher on the policy's own replies; see teacher"
    )
    distill_end: NonNegative | None = Field(
        None, description="its weight at the end, reached geometrically; None: constant"
    )
    schedule: Literal["geometric", "mmd"] = Field(
        "geometric",
        description="how weights change: geometric goes from each weight to its _end; mmd divides entropy, magnet and "
        "distill by the root of the iteration and multiplies kl_old by it",
    )
    kl_old: NonNegative = Field(0.0, description="weight of KL(policy | policy before the update), nats")
    kl_old_end: NonNegative | None = Field(
        None, description="its weight at the end, reached geometrically; None: constant"
    )
    kl_reference: NonNegative = Field(0.0, description="weight of KL(policy | its weights before training), nats")
    kl_estimator: KlEstimator = Field(
        "k2", description="estimate of kl_reference for free replies; exact for choice replies"
    )
    entropy: NonNegative = Field(0.05, description="weight of the entropy bonus at the start")
    entropy_end: NonNegative | None = Field(
        None, description="weight at the end, reached geometrically; None: constant"
    )
    epo: NonNegative = Field(
        0.0, description="weight of keeping entropy within 0.8 to 1.2 times its running mean (EPO)"
    )
    epo_end: NonNegative | None = Field(
        None, description="its weight at the end: exploration is curbed in phases, as in EPO; None: constant"
    )
    epo_ends: dict[str, NonNegative] = Field(
        {}, description='its weight at the end by role, as "game/role" = a weight; other roles: epo_end'
    )
    magnet: NonNegative = Field(0.0, description="weight of KL(policy | magnet)")
    magnet_end: NonNegative | None = Field(
        None, description="its weight at the end, reached geometrically; None: constant"
    )
    magnet_every: Positive = Field(100, description="updates between two refreshes of the magnet")
    magnet_uniform: Share = Field(0.1, description="share of the uniform policy mixed into the magnet (choice replies)")
    magnet_rule: Literal["loss", "rewards"] = Field(
        "loss",
        description="how the magnet pulls: by KL(policy | magnet) in the loss, or by rewards less magnet * "
        "log(policy / magnet), as in R-NaD (choice replies)",
    )

    def settings_of(self, name: str) -> dict[str, Any]:
        """Return the settings of a surrogate: ours has keys of this table, a plugin's has its own table in it."""
        if name in LOSSES:
            return {key: getattr(self, key) for key in LOSSES[name].settings.model_fields}
        table: Section | None = getattr(self, name, None)
        return {} if table is None else table.model_dump()

    @model_validator(mode="after")
    def _ends_fit_the_schedule(self) -> ObjectiveConfig:
        ends = [
            name
            for name in ("entropy_end", "kl_old_end", "magnet_end", "distill_end")
            if getattr(self, name) is not None
        ]
        if self.schedule == "mmd" and ends:
            raise ValueError(
                f"objective.schedule = 'mmd' moves the weights by the root of the iteration, but {ends[0]} states "
                "where one ends. Leave it out, or set objective.schedule = 'geometric'."
            )
        return self


class TinkerSettings(Section):
    """A service that speaks the Tinker API. Its key is in the environment variable TINKER_API_KEY."""

    url: str = Field("", description="address of the service; empty: the environment variable TINKER_BASE_URL")
    base: str = Field("", description="the base model's name at the service; empty: model.source")
    seconds: float = Field(600.0, gt=0.0, le=86_400.0, description="seconds an answer may take before the run stops")
    days: Positive | None = Field(
        30, le=3_650, description="days that the service keeps a saved state for resuming; None: for ever"
    )


class TrainerConfig(Section):
    """Where policies learn, and a table for each trainer that has settings."""

    kind: TrainerName = Field("torch", description="torch: in the run's own processes; tinker: through the Tinker API")
    tinker: TinkerSettings = TinkerSettings()

    @property
    def learns_here(self) -> bool:
        """Whether policies learn in the run's own processes, and not with a trainer elsewhere."""
        return family("trainers")[self.kind].make is None


class OptimizerConfig(Section):
    """The optimiser (AdamW)."""

    learning_rate: LearningRate = Field(5e-4, description="learning rate at the start")
    learning_rate_end: LearningRate | None = Field(None, description="learning rate at the end; None: constant")
    inner_steps: Positive = Field(4, description="optimiser steps on one batch")
    minibatch_prompts: Positive = Field(
        256,
        description="a game with more distinct prompts is spread over the inner steps, at least this many in each",
    )
    name: Literal["adamw", "adamw8bit"] = Field(
        "adamw", description="adamw8bit keeps its moments in 8 bits, with bitsandbytes"
    )
    weight_decay: NonNegative = Field(0.0, description="AdamW weight decay")
    max_grad_norm: float = Field(1.0, gt=0.0, description="gradients are clipped to this norm")
    micro_batch_tokens: Count = Field(
        8192, description="tokens in one forward and backward pass; 0: 1,024 on a CPU, as many as fit on a GPU"
    )
    checkpointing: bool = Field(
        False, description="free replies: keep only each layer's input, and recompute the rest in the backward pass"
    )
    processes: Positive = Field(
        1,
        description="processes that make each update together, on one machine with a GPU each; under torchrun, "
        "torchrun's processes",
    )
    sharded: bool = Field(
        False, description="shard the weights in training over the processes (FSDP2), instead of replicating them"
    )
    offload: bool = Field(
        False,
        description="keep AdamW's moments in main memory between steps, or, on a CPU, in a file: 8 bytes a weight less",
    )
    max_gap: float = Field(
        0.05, gt=0.0, description="greatest mean |log p learner - log p sampler| (nats) of a batch; see gap_action"
    )
    gap_action: Literal["stop", "drop"] = Field(
        "stop", description="a batch above max_gap stops the run, or is left out, with an alarm"
    )


if TYPE_CHECKING:
    AlarmName = str
else:
    AlarmName = name_of("alarms")


class AlarmTable(Section):
    """When the run warns that a policy is going wrong. Alarms are shown; those of ``stop`` end a run."""

    warmup: Positive = Field(10, description="first iterations, which define what is normal for the run")
    stop: tuple[AlarmName, ...] = Field(("silent",), description="the run stops once one of these alarms rings")

    if TYPE_CHECKING:  # a type checker cannot follow fields that are made at run time

        def __getattr__(self, name: str) -> Any: ...


if TYPE_CHECKING:
    AlarmsConfig = AlarmTable
else:  # alarms' settings are fields of the table itself
    _OWN = dict.fromkeys(rule.settings for rule in family("alarms").values() if rule.settings.model_fields)
    AlarmsConfig = create_model(
        "AlarmsConfig", __base__=(*reversed(_OWN), AlarmTable), __module__=__name__, __doc__=AlarmTable.__doc__
    )


class DistilConfig(Section):
    """How ``distil_every`` and `league lab distil` make one snapshot of ``RUN@mixture``."""

    steps: Positive = Field(200, description="optimiser steps of a policy")
    learning_rate: LearningRate | None = Field(
        None, description="peak learning rate; None: optimizer.learning_rate, the rate at the start of the run"
    )
    matches: Positive = Field(2048, description="matches of the mixture to imitate, in each game too large to tabulate")
    in_place: bool = Field(
        False,
        description="distil_every, and the end, teaches the policies in training instead, in games with policy tables: "
        "the newest snapshot is then the mixture of itself and all others",
    )
    roles: dict[str, Any] = Field(
        {}, description="how the distilled model answers: the keys of [roles] that differ, such as reply"
    )
