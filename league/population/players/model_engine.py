"""The kinds of engines for a run's language models, and checks that one can play a run before anything is started.

All that the league knows of a kind of engine is its entry in ``ENGINES``, and the package that it needs beyond the
league's own, which ``league.config.engine`` names because it is looked for before torch is imported.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import torch

from arena.lm.language_model import LanguageModel
from arena.lm.lora import adapter_base, is_adapter, read_shape
from arena.lm.tokenization import ChatTokenizer
from arena.records import Reply, ReplyRequest
from arena.samplers.torch_lm import LoadsWeights, TorchLM
from games.common import plugins
from games.common.errors import UsageError, unknown_name
from games.common.section import Section
from league.config import RunConfig
from league.config.context import RunContext
from league.config.engine import VLLM_RANKS, EngineConfig, EnginePackage
from league.config.load import validate
from league.population.models.source import model_folder
from league.population.players.demonstrations import demonstrations
from league.population.players.machine import no_gpu, require_engine_package
from roles.role import ReplyForm, Roles

if TYPE_CHECKING:
    from arena.samplers.vllm_lm import VllmLM


class ModelEngine(Protocol):
    """An engine of language models, which answers in batches or streams."""

    @property
    def tokens(self) -> int:
        """Prompt and reply tokens of all replies so far."""
        ...

    def add(self, player: str, lm: LanguageModel) -> None:
        """Add a player whose model is in training; its weights may change before a ``refresh`` call."""
        ...

    def register(
        self,
        player: str,
        source: str | Path,
        check: Callable[[], object] | None = None,
        like: LoadsWeights | None = None,
    ) -> None:
        """Add a player from a folder or hub id; its first request loads it, after ``check`` (which may raise)."""
        ...

    def refresh(self) -> None:
        """Let the next request use weights that have changed."""
        ...

    def sample(self, requests: Sequence[ReplyRequest]) -> list[Reply]:
        """Return one reply for each request."""
        ...

    def distributions(self, requests: Sequence[ReplyRequest]) -> list[tuple[float, ...]]:
        """Return for each request the probability of each legal reply."""
        ...

    def sleep(self) -> None:
        """Free memory that only replying needs, if the engine can; the next request allocates it again."""
        ...

    def close(self) -> None:
        """Free the engine's resources. It cannot be used afterwards."""
        ...


class ModelSource(NamedTuple):
    """The model files that an engine in a separate process is started on."""

    tokenizer: ChatTokenizer  # of all its players
    base: Path | str | None  # of adapters: a folder or a hub id; None: players are full models

    @classmethod
    def read(cls, source: Path | str, *, adapters: bool) -> ModelSource:
        """Return the base in a folder or on the hub, or, for full models, its tokenizer alone."""
        return cls(ChatTokenizer.read(source), source if adapters else None)


def checkpoint_source(config: RunConfig, folder: Path | str) -> tuple[RunConfig, Callable[[], ModelSource]]:
    """Return what an engine of a single model, in a folder or on the hub, is made from; the folder may be an adapter's.

    The configuration gets a policy for the adapter, so that the engine is checked and sized for it.
    """
    if not is_adapter(folder):
        return config, lambda: ModelSource.read(folder, adapters=False)
    rank, base = read_shape(Path(folder)).rank, adapter_base(Path(folder))
    table = config.model_dump(exclude_none=True) | {"policies": {"main": {"weights": "lora", "rank": rank}}}
    return fitted(validate(table)), lambda: ModelSource.read(base, adapters=True)


def fitted(config: RunConfig) -> RunConfig:
    """Return the configuration with its engine sized for its policies, for a run that was trained with another one."""
    fit = engine_kind(config).fit
    return config if fit is None else fit(config)


class EngineKind(NamedTuple):
    """One kind of engine."""

    make: Callable[[RunConfig, Callable[[], ModelSource]], ModelEngine]  # the source is for a ``separate_process``
    streams: bool  # answers each request as it comes (``arena.records.Streaming``)
    # True: in processes of its own, one engine per run, which reads weights from folders and calls only ``save`` of
    # live models. False: in this process, one engine for all runs on a device, which plays the models in memory.
    separate_process: bool
    # Raises UsageError, with what would work, if these policies cannot be played on this machine.
    check: Callable[[RunConfig, Iterable[str]], None] | None = None
    # Returns the configuration with the engine's table sized for the policies, of a run that was not made for it.
    fit: Callable[[RunConfig], RunConfig] | None = None
    # Raises UsageError, with the number that would work; by game, the tokens of the longest prompt and its reply.
    check_context: Callable[[RunConfig, Mapping[str, int]], None] | None = None
    # Of a plugin's engine: its table ``engine.NAME`` in the configuration, and the package that it needs, if it does.
    settings: type[Section] | None = None
    package: EnginePackage | None = None


def register(name: str, kind: EngineKind) -> None:
    """Add an engine of a plugin; ``engine.kind`` takes its name. Raises UsageError for a name that is taken."""
    plugins.register("engines", name, kind, built_in=(*ENGINES, *EngineConfig.model_fields))


def engine_kind(config: RunConfig) -> EngineKind:
    """Return a run's kind of engine. Raises UsageError, with the nearest names, for an unknown one."""
    name = config.engine.kind
    kind: EngineKind | None = ENGINES.get(name) or plugins.lookup("engines", name)
    if kind is None:
        raise unknown_name("engine", name, [*ENGINES, *plugins.names("engines")], "engine.kind chooses one.")
    return kind


def check_engine(config: RunConfig, policies: Iterable[str]) -> None:
    """Raise UsageError, with what would work, if the engine cannot play these policies on this machine."""
    kind = engine_kind(config)
    for group in config.by_model(policies).values():
        model = config.model_of(group[0])
        if not _has_device(model.device):
            raise no_gpu(f"policies.{group[0]}.model" if config.policy(group[0]).model else "model", model.device)
        if kind.check is not None:
            kind.check(config, group)
    require_engine_package(config)


def _has_device(name: str) -> bool:
    """Return whether torch finds a device, such as cuda:1, here."""
    kind, _, index = name.partition(":")
    if kind == "mps":
        return torch.backends.mps.is_available()
    count = {"cuda": torch.cuda.device_count, "xpu": torch.xpu.device_count}.get(kind, lambda: 1)
    return int(index or 0) < count()


def check_context(config: RunConfig, roles: Roles, tokenizer: ChatTokenizer) -> None:
    """Raise UsageError, with the number that would work, if a game's prompts and replies exceed its context."""
    check = engine_kind(config).check_context
    if check is not None:
        check(config, longest_prompts(config, roles, tokenizer))


def longest_prompts(config: RunConfig, roles: Roles, tokenizer: ChatTokenizer) -> dict[str, int]:
    """Return by game the tokens of the longest prompt and its reply, in the matches that a cold start imitates."""
    longest: dict[str, int] = {}
    for chat, _, role, legal, *_ in demonstrations(config, roles):
        choice = role.reply is ReplyForm.CHOICE
        reply = max(map(len, tokenizer.trie(legal).tokens)) if choice else role.max_reply_tokens
        longest[role.game] = max(longest.get(role.game, 0), len(tokenizer.encode_prompt(chat)) + reply)
    return longest


def _make_torch(config: RunConfig, _: Callable[[], ModelSource]) -> TorchLM:
    return TorchLM(device=config.model.device, dtype=config.model.dtype, loaded=config.loaded_snapshots)


def _make_vllm(config: RunConfig, source: Callable[[], ModelSource]) -> VllmLM:
    logging.getLogger("vllm").addHandler(logging.NullHandler())  # or its warnings are printed while it is imported
    from arena.samplers.vllm_lm import VllmLM
    from arena.samplers.vllm_process import VllmShape  # takes many seconds to import

    settings, (tokenizer, base) = config.engine.vllm, source()
    shape = VllmShape(
        adapters=base is not None,
        max_loras=settings.max_loras,
        max_lora_rank=settings.max_lora_rank,
        cached_adapters=config.loaded_snapshots,
        max_model_len=min(settings.max_model_len, tokenizer.context or settings.max_model_len),
        dtype=settings.dtype or config.model.dtype,
        memory_share=settings.gpu_memory_utilization,
        kv_gib=settings.kv_cache_gib,
        sleep=settings.sleep,
    )
    return VllmLM(base, tokenizer, shape)


def _fit_vllm(config: RunConfig) -> RunConfig:
    ranks = [config.engine.vllm.max_lora_rank, *(p.rank for p in config.policies.values() if p.adapted)]
    table = config.model_dump(exclude_none=True)
    table["engine"]["vllm"]["max_lora_rank"] = next((r for r in VLLM_RANKS if r >= max(ranks)), VLLM_RANKS[-1])
    return validate(table)


def _check_vllm(config: RunConfig, policies: Iterable[str]) -> None:
    _check_vllm_policies(config, list(policies))
    if config.engine.vllm.sleep:
        _check_vllm_sleep(config)


def _check_vllm_policies(config: RunConfig, policies: Sequence[str]) -> None:
    adapted = [name for name in policies if config.policy(name).adapted]
    if adapted and len(adapted) < len(policies):
        full = ", ".join(name for name in policies if name not in adapted)
        raise UsageError(
            f"One vLLM serves adapters on one base, or full models in turn, but of this run's policies {full} would "
            "be full and the others adapters. Give all the same policies.NAME.weights, or set engine.kind = 'torch'."
        )
    max_rank = config.engine.vllm.max_lora_rank
    for name in adapted:
        rank = config.policy(name).rank
        if rank > max_rank:
            enough = next((allowed for allowed in VLLM_RANKS if allowed >= rank), None)
            advice = (
                f"engine.vllm.max_lora_rank = {enough}"
                if enough
                else f"policies.{name}.rank to {VLLM_RANKS[-1]} or less"
            )
            raise UsageError(
                f"policies.{name}.rank = {rank}, but engine.vllm.max_lora_rank = {max_rank}. Set {advice}."
            )


def _check_vllm_sleep(config: RunConfig) -> None:
    if config.async_learners.processes != "none":
        raise UsageError(
            "engine.vllm.sleep = true lets vLLM and this process take turns with a GPU's memory, but learner processes "
            "(async_learners.processes) would keep theirs. Set it to false, or async_learners.processes to 'none'."
        )
    if not torch.cuda.is_available():
        raise UsageError(
            "engine.vllm.sleep = true lets vLLM and the learner share a GPU, but PyTorch finds no GPU here. Set it to "
            "false."
        )


def _check_vllm_context(config: RunConfig, longest: Mapping[str, int]) -> None:
    max_tokens = config.engine.vllm.max_model_len
    for game, tokens in longest.items():
        if tokens > max_tokens:
            raise UsageError(
                f"In trial matches of {game}, the longest prompt and its reply take {tokens} tokens, but "
                f"engine.vllm.max_model_len = {max_tokens}. Set it to {tokens} or more."
            )


ENGINES: dict[str, EngineKind] = {
    "torch": EngineKind(_make_torch, streams=False, separate_process=False),
    "vllm": EngineKind(
        _make_vllm,
        streams=True,
        separate_process=True,
        check=_check_vllm,
        fit=_fit_vllm,
        check_context=_check_vllm_context,
    ),
}


def check_model(context: RunContext) -> None:
    """Raise UsageError if a model is not on this machine, cannot be read, or has too short a context for a game."""
    for source in context.config.pretrained(context.policies):
        tokenizer = ChatTokenizer.read(model_folder(source))
        if tokenizer.context is None:
            continue
        for game, tokens in longest_prompts(context.config, context.roles, tokenizer).items():
            if tokens > tokenizer.context:
                raise UsageError(
                    f"In trial matches of {game}, the longest prompt and its reply take {tokens} tokens, but {source} "
                    f"reads {tokenizer.context} at most. Set roles.max_reply_tokens lower where replies are free, give "
                    "a shorter role card (roles.cards), or use a model with a longer context."
                )
