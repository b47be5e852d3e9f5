"""A run's frozen configuration. Every field has a description and is settable by ``--set key=value``.

``league/presets/*.toml`` and a run's own ``config.toml`` have this shape.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Annotated, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from games.common.limits import LARGEST_SEED, LEAST_TEMPERATURE, MOST_THREADS
from games.common.section import Count, LearningRate, NonNegative, Positive, Section
from league.config.auxiliary import BeliefsConfig, PredictionConfig, ShapingConfig
from league.config.credit import CreditConfig, CriticConfig, SelectionConfig, ValuesConfig
from league.config.engine import AsyncLearnersConfig, ClusterConfig, EngineConfig, ProgramsConfig
from league.config.evaluation import BoardConfig, EvaluationConfig
from league.config.learning import (
    AlarmsConfig,
    DistilConfig,
    ImitationConfig,
    ObjectiveConfig,
    OptimizerConfig,
    PolicyConfig,
    TrainerConfig,
)
from league.config.matchmaking import (
    BranchingConfig,
    CurriculumConfig,
    DescentConfig,
    ExploitersConfig,
    MatchmakingConfig,
    StartsConfig,
)
from league.config.teacher import LatentConfig, TeacherConfig
from learners.losses.contrast import ContrastConfig

MEASURED = -1  # threads

Size = Annotated[int, Field(ge=1, le=65_536)]  # of a pocket model: no layer of any model is wider


class GameConfig(Section):
    """One game of the run's curriculum."""

    matches: Positive = Field(512, description="training matches in one iteration")
    every: Positive = Field(1, description="iterations between two batches of this game")
    loss_weight: NonNegative = Field(1.0, description="weight of its loss in an update, submatches included")
    entropy: NonNegative | None = Field(
        None, description="its entropy weight, submatches included (None: that of objective)"
    )
    entropy_end: NonNegative | None = Field(None, description="its final entropy weight, submatches included")


class RolesConfig(Section):
    """Overrides of the role cards, for all roles of the run."""

    reply: Literal["choice", "free"] | None = Field(None, description="reply form of every role")
    on_illegal: Literal["mask", "retry", "forfeit"] | None = Field(
        None, description="what happens after an illegal reply, in every role"
    )
    retries: Count | None = Field(None, description="retries before a forfeit")
    price: float | None = Field(None, description="price of a forfeit in the game's units")
    max_reply_tokens: Positive | None = Field(None, description="longest free reply, in tokens")
    temperature: float | None = Field(None, ge=LEAST_TEMPERATURE, description="sampling temperature of every role")
    top_k: Count | None = Field(None, description="free replies: only the k most likely tokens; 0: all")
    top_p: float | None = Field(
        None, gt=0.0, le=1.0, description="free replies: only the most likely tokens, up to this sum of probabilities"
    )
    min_p: float | None = Field(
        None, ge=0.0, le=1.0, description="free replies: only tokens at least this likely, as a share of the likeliest"
    )
    policy: dict[str, str] = Field({}, description='policies of roles, as "game/role" = "policy"')
    player: dict[str, Annotated[str, Field(min_length=1)]] = Field(
        {},
        description='fixed players of roles, which are not trained, as "game/role" = a player as `league match` '
        "takes it",
    )
    cards: str | None = Field(None, description="folder of role cards that replace the built-in ones")
    wording: Literal["brief", "full"] | None = Field(
        None,
        description="full: cards with all rules, and the legal replies at the end of a request; None: brief for a "
        "pocket model, full for a pretrained one",
    )
    wordings: dict[str, Literal["brief", "full"]] = Field(
        {}, description="wording for single policies; a policy with its own base model has that model's"
    )
    demonstrations: Count | None = Field(None, description="turns of legal play shown to a role before its own turn")

    stores: bool = Field(True, description="store the notes that cards keep, and show them in later matches")
    tool_timeout: float | None = Field(
        None, gt=0.0, le=86_400.0, description="seconds a call of any tool may take; None: as the cards say"
    )
    tool_calls: Positive | None = Field(
        None, description="most calls of one tool that run at once; None: as the cards say"
    )
    tool_retries: Count | None = Field(
        None, description="how often a tool call that fails or times out is retried; None: as the cards say"
    )

    @model_validator(mode="after")
    def _free_replies_cannot_be_masked(self) -> RolesConfig:
        if self.reply == "free" and self.on_illegal == "mask":
            raise ValueError(
                "roles.on_illegal = 'mask' masks sampling to the legal replies, which a free reply is not. "
                "Use 'forfeit' or 'retry', or roles.reply = 'choice'."
            )
        return self


class ModelConfig(Section):
    """The base model. ``source = "pocket"`` builds a small Qwen3-shaped decoder from scratch."""

    source: str = Field(
        "pocket",
        description='"pocket", a name of `league models`, a folder in Hugging Face layout, a run (its newest), a '
        ".gguf file, or a hub id",
    )
    hidden_size: Size = Field(128, description="width of the pocket model")
    layers: Size = Field(2, description="layers of the pocket model")
    heads: Size = Field(4, description="attention heads of the pocket model")
    kv_heads: Size = Field(2, description="key/value heads of the pocket model")
    intermediate_size: Size = Field(256, description="width of the pocket model's feed-forward part")
    vocabulary: Positive = Field(2048, description="largest vocabulary of the pocket tokenizer")
    dtype: Literal["float32", "bfloat16", "auto"] = Field(
        "float32",
        description="dtype of the weights; auto: bfloat16 on a GPU, and, of weights under adapters with masked "
        "replies, on a processor that multiplies it (AVX-512 BF16, AMX), else float32",
    )
    device: str = Field("cpu", description="torch device that holds the model; auto: a GPU if there is one")
    compile: bool = Field(False, description="compile norms and gates with torch.compile, for a GPU")

    @field_validator("device")
    @classmethod
    def _known_device(cls, device: str) -> str:
        if not re.fullmatch(r"auto|cpu|mps|(cuda|xpu)(:\d{1,3})?", device):
            raise ValueError(f"model.device = {device!r} is not a device: choose auto, cpu, cuda, cuda:1, xpu or mps.")
        return device

    @model_validator(mode="after")
    def _heads_divide(self) -> ModelConfig:
        if self.source == "pocket" and self.hidden_size % self.heads:
            raise ValueError(f"model.hidden_size = {self.hidden_size} is not a multiple of model.heads = {self.heads}.")
        if self.heads % self.kv_heads:
            raise ValueError(f"model.heads = {self.heads} is not a multiple of model.kv_heads = {self.kv_heads}.")
        return self


class ColdStartConfig(Section):
    """Imitation before the first match.

    A model from scratch imitates scripted players; a pretrained model with free replies imitates its own legal replies.
    """

    steps: Count = Field(60, description="optimiser steps; 0 skips the cold start")
    matches: Positive = Field(200, description="matches of each game to imitate")
    players: tuple[str, ...] = Field(
        ("random",), min_length=1, description="players to imitate, such as scripted:optimal; each seat draws one"
    )
    random_moves: Count = Field(
        0,
        description="most random moves, not imitated, that each match to imitate begins with",
    )
    batch_size: Positive = Field(256, description="turns in a step")
    learning_rate: LearningRate = Field(3e-3, description="peak learning rate")
    own_replies: Count = Field(
        0,
        description="replies that a pretrained model draws at each position of these matches, to imitate the legal "
        "ones; 0: no cold start",
    )
    demonstrations: Count = Field(2, description="turns of legal play shown to it while it draws these replies")


class RunConfig(Section):
    """The configuration of a run."""

    plugins: tuple[str, ...] = Field(
        (), description="outside modules or installed packages that the run needs: league show docs extending"
    )
    seed: int = Field(0, ge=0, le=LARGEST_SEED, description="seed that every stream of randomness derives from")
    iterations: Positive = Field(200, description="updates of each policy")
    snapshot_every: Positive = Field(10, description="iterations between two snapshots")
    distil_every: Count = Field(
        0,
        description="iterations between two distilled snapshots, RUN@distilled: single models that play like the "
        "average of RUN@mixture; a multiple of snapshot_every; 0: none",
    )
    in_flight: Positive = Field(4096, description="matches in flight at once")
    threads: int = Field(
        0,
        ge=MEASURED,
        le=MOST_THREADS,
        description="PyTorch threads; 0: OMP_NUM_THREADS if set, else a thread for each core; -1: as 0, but if it is "
        "not set, as many as compute fastest when the run starts",
    )
    loaded_snapshots: Positive = Field(8, description="opponents' weights held in memory at once")
    checkpoints: Positive = Field(
        2, description="how many of the newest saved states are kept, each as large as a policy in training"
    )
    checkpoint_every: Positive = Field(
        1,
        description="iterations between two saved states; in between, matches are kept, from which a killed run "
        "learns the same again. Snapshots and the end always save their state",
    )
    episodes_kept: Count = Field(
        12,
        description="matches kept for reading at each snapshot: a game's first, best, worst, most surprising, most "
        "refused, most stale and longest, and some at random",
    )
    games: dict[str, GameConfig] = Field(
        min_length=1, description="games of the curriculum by name; hex(board_size={2..4}) names one for each value"
    )
    curriculum: CurriculumConfig = CurriculumConfig()
    roles: RolesConfig = RolesConfig()
    model: ModelConfig = ModelConfig()
    engine: EngineConfig = EngineConfig()
    cold_start: ColdStartConfig = ColdStartConfig()
    policies: dict[str, PolicyConfig] = Field({}, description="settings of single policies, by name")
    alternate: Count = Field(
        0, description="iterations for which each policy trains in turn while the others rest; 0: all train at once"
    )
    credit: CreditConfig = CreditConfig()
    selection: SelectionConfig = SelectionConfig()
    programs: ProgramsConfig = ProgramsConfig()
    async_learners: AsyncLearnersConfig = AsyncLearnersConfig()
    cluster: ClusterConfig = ClusterConfig()
    values: ValuesConfig = ValuesConfig()
    critic: CriticConfig = CriticConfig()
    objective: ObjectiveConfig = ObjectiveConfig()
    imitation: ImitationConfig = ImitationConfig()
    teacher: TeacherConfig = TeacherConfig()
    beliefs: BeliefsConfig = BeliefsConfig()
    shaping: ShapingConfig = ShapingConfig()
    prediction: PredictionConfig = PredictionConfig()
    contrast: ContrastConfig = ContrastConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    trainer: TrainerConfig = TrainerConfig()
    matchmaking: MatchmakingConfig = MatchmakingConfig()
    branching: BranchingConfig = BranchingConfig()
    starts: StartsConfig = StartsConfig()
    exploiters: ExploitersConfig = ExploitersConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    distil: DistilConfig = DistilConfig()
    latent: LatentConfig = LatentConfig()
    descent: DescentConfig = DescentConfig()
    alarms: AlarmsConfig = AlarmsConfig()
    board: BoardConfig = BoardConfig()

    @property
    def league_roles(self) -> dict[str, str]:
        """The league roles of policies that no role binds to, exploiters and partners, by policy name."""
        return {name: policy.league_role for name, policy in self.policies.items() if not policy.bound}

    @property
    def kept_checkpoints(self) -> int:
        """How many of the newest saved states stay: a stream needs the weights of matches in flight."""
        return max(self.checkpoints, self.async_learners.batches_ahead + 2 if self.async_learners.streams else 0)

    def policy(self, name: str) -> PolicyConfig:
        """Return how a policy is trained."""
        return self.policies.get(name, PolicyConfig())

    def model_of(self, policy: str) -> ModelConfig:
        """Return a policy's base model: ``model`` with its own changes. Raises ValidationError for unknown keys."""
        changes = self.policy(policy).model
        return ModelConfig.model_validate({**self.model.model_dump(), **changes}) if changes else self.model

    @property
    def distilled_roles(self) -> RolesConfig:
        """How distilled models answer: ``roles`` with the changes of ``distil.roles``."""
        changes = self.distil.roles
        return RolesConfig.model_validate({**self.roles.model_dump(), **changes}) if changes else self.roles

    def for_policy(self, name: str) -> RunConfig:
        """Return the configuration with a policy's base model as the run's."""
        return self.model_copy(update={"model": self.model_of(name)}) if self.policy(name).model else self

    def with_models(self, change: Callable[[ModelConfig], ModelConfig]) -> RunConfig:
        """Return the configuration with other devices and types of weights, by ``change`` of each model."""
        model, policies = change(self.model), dict(self.policies)
        for name in (name for name, policy in self.policies.items() if policy.model):
            overrides, its = self.policies[name].model, change(self.model_of(name))
            states = {
                key: getattr(its, key)
                for key in ("device", "dtype")
                if key in overrides or getattr(its, key) != getattr(model, key)
            }
            policies[name] = self.policies[name].model_copy(update={"model": overrides | states})
        return self.model_copy(update={"model": model, "policies": policies})

    def on_devices(self, device: Callable[[str], str]) -> RunConfig:
        """Return the configuration with each model moved to ``device`` of its present one."""
        return self.with_models(lambda model: model.model_copy(update={"device": device(model.device)}))

    @property
    def devices(self) -> set[str]:
        """The devices of the run's model and of policies' own models."""
        return {self.model.device, *(self.model_of(name).device for name in self.policies)}

    def pretrained(self, policies: Iterable[str]) -> list[str]:
        """Return the pretrained models that policies begin from, each once."""
        return list(dict.fromkeys(source for p in policies if (source := self.model_of(p).source) != "pocket"))

    def by_model(self, policies: Iterable[str]) -> dict[str, list[str]]:
        """Return policies grouped by base model, under each group's first policy, in their order."""
        groups: dict[str, list[str]] = {}
        for name in policies:
            model = self.model_of(name)
            groups.setdefault(next((first for first in groups if self.model_of(first) == model), name), []).append(name)
        return groups

    @model_validator(mode="after")
    def _distilled_roles_are_valid(self) -> RunConfig:
        try:
            answers = self.distilled_roles
        except ValidationError as error:
            raise ValueError(_wrong_change("distil.roles", "roles", error)) from error
        if bound := sorted({"policy", "player"} & self.distil.roles.keys()):
            raise ValueError(
                f"distil.roles.{bound[0]} would give roles to others, but a distilled model has the roles of the "
                f"policies that it stands for. Set roles.{bound[0]}, or leave it out."
            )
        if self.roles.reply == "free" and answers.reply != "free":
            raise ValueError(
                f"distil.roles.reply = {answers.reply!r} cannot be taught by free replies, of which a run with "
                "roles.reply = 'free' has no probabilities. Leave it out."
            )
        if self.distil.roles and self.distil.in_place:
            raise ValueError(
                "distil.in_place teaches the policies in training, which answer as [roles] says, and distil.roles is "
                "for a model beside them. Leave out one of the two."
            )
        return self

    @model_validator(mode="after")
    def _own_models_are_valid(self) -> RunConfig:
        for name, policy in self.policies.items():
            try:
                self.model_of(name)
            except ValidationError as error:
                raise ValueError(_wrong_change(f"policies.{name}.model", "model", error)) from error
            if policy.model and not policy.bound and not policy.frozen:
                raise ValueError(
                    f"policies.{name}.model is set, but exploiters and partners that learn start from the run's "
                    f"[model]. Leave it out, or set policies.{name}.frozen = true."
                )
        return self


def _wrong_change(table: str, of: str, error: ValidationError) -> str:
    """Return what is wrong with a table of changes to another, which has the same keys."""
    first = error.errors()[0]
    where = ".".join([table, *map(str, first["loc"])])
    return f"{where}: {first['msg'].removeprefix('Value error, ')}. Its keys are those of [{of}]."
