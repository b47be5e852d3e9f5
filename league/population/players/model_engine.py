"""The engines for a run's language models, and checks that one can play a run before anything is started.

The league knows an engine only by its entry in ``ENGINES``: its settings, and the package that it needs beyond the
league's own. Slow imports happen where an engine is made, so that looking up names and packages does not need them.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from games.common.errors import UsageError
from games.common.registry import Entry, Registry
from league.config import RunConfig
from league.config.context import RunContext
from league.config.engine import VLLM_RANKS, EngineConfig, VllmServerSettings, VllmSettings
from league.config.load import validate
from league.population.models.source import model_folder
from league.population.players.adapter_slots import AdapterSlots, adapter_slots
from league.population.players.machine import is_installed, no_gpu
from roles.role import ReplyForm, Roles

if TYPE_CHECKING:
    from arena.lm.language_model import LanguageModel
    from arena.lm.tokenization import ChatTokenizer
    from arena.records import Reply, ReplyRequest
    from arena.samplers.torch_lm import LoadsWeights, TorchLM
    from arena.samplers.vllm_lm import VllmLM
    from arena.samplers.vllm_shape import VllmShape


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

    def keep(self, name: str, player: str, lm: LanguageModel) -> None:
        """Add a player with the present weights of a live player's model, whatever becomes of them, until ``drop``."""
        ...

    def drop(self, name: str) -> None:
        """Remove a player that ``keep`` added; none of its requests is in flight."""
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
        from arena.lm.tokenization import ChatTokenizer  # torch is slow to import

        return cls(ChatTokenizer.read(source), source if adapters else None)


def checkpoint_source(config: RunConfig, folder: Path | str) -> tuple[RunConfig, Callable[[], ModelSource]]:
    """Return the source of an engine for a single model, in a folder or on the hub; the folder may be an adapter's.

    The configuration gets a policy for the adapter, so that the engine is checked and sized for it.
    """
    from arena.lm.lora import adapter_base, is_adapter, read_shape  # torch is slow to import

    if not is_adapter(folder):
        return config, lambda: ModelSource.read(folder, adapters=False)
    rank, base = read_shape(Path(folder)).rank, adapter_base(Path(folder))
    table = config.model_dump(exclude_none=True) | {"policies": {"main": {"weights": "lora", "rank": rank}}}
    return fitted(validate(table)), lambda: ModelSource.read(base, adapters=True)


def fitted(config: RunConfig) -> RunConfig:
    """Return the configuration with its engine sized for its policies, for a run that was trained with another one."""
    fit = engine_kind(config).fit
    return config if fit is None else fit(config)


class EnginePackage(NamedTuple):
    """A package that an engine needs and that the league is installed without."""

    name: str  # as its makers write it
    module: str
    how: str  # to install it


class Server(Enum):
    """The server that answers others' requests when a snapshot is served."""

    HERE = "the process that serves"
    ITS_OWN = "vLLM's own server"


class ServerSpread(NamedTuple):
    """How an engine is spread over servers, and these over cards."""

    started: int = 0  # servers that the run starts
    given: int = 0  # that others keep
    cards: int = 1  # of each of them


# The files that an engine in a separate process is started on.
MakeEngine = Callable[[RunConfig, Callable[[], ModelSource]], ModelEngine]


@dataclass(frozen=True, slots=True)
class EngineKind(Entry[MakeEngine]):
    """One kind of engine. Its settings are the table ``engine.NAME``.

    ``check(config, policies)`` raises UsageError, with what would work, if these policies cannot be played on this
    machine.
    """

    streams: bool = False  # answers each request as it comes (``arena.records.Streaming``)
    # True: in processes of its own, one engine per run, which reads weights from folders and calls only ``save`` of
    # live models. False: in this process, one engine for all runs on a device, which plays the models in memory.
    separate_process: bool = False
    # Returns the configuration with the engine's table sized for the policies, of a run that was not made for it.
    fit: Callable[[RunConfig], RunConfig] | None = None
    # Raises UsageError, with the number that would work; by game, the tokens of the longest prompt and its reply.
    check_context: Callable[[RunConfig, Mapping[str, int]], None] | None = None
    # How many adapters one batch mixes, for policies on a base of this shape (``transformers``); None: it does not say.
    slots: Callable[[RunConfig, Any], AdapterSlots] | None = None
    package: EnginePackage | None = None  # the package that it needs, if any
    server: Server | None = None  # how `league serve` serves a snapshot with it; None: not at all
    spread: Callable[[RunConfig], ServerSpread] | None = None  # over servers; None: it is not
    wants_gpu: bool = False  # it is made for GPUs: a run with it that names no device uses a GPU


def engine_kind(config: RunConfig) -> EngineKind:
    """Return a run's kind of engine."""
    return ENGINES[config.engine.kind]


def require_engine_package(config: RunConfig) -> None:
    """Raise UsageError, which says how to install it, if the package that a run's engine needs is missing."""
    require_engine(config.engine.kind, "engine.kind =")


def require_engine(kind: str, chosen_by: str) -> None:
    """Raise UsageError if the package that a kind of engine needs is missing; ``chosen_by`` is what chose it."""
    package = ENGINES[kind].package
    if package is not None and not is_installed(package.module):
        raise UsageError(
            f"{chosen_by} {kind!r}, but {package.name} is not installed. Install it ({package.how}), or set "
            f"{chosen_by} 'torch'."
        )


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
    import torch  # slow to import

    kind, _, index = name.partition(":")
    if kind == "mps":
        return torch.backends.mps.is_available()
    count = {"cuda": torch.cuda.device_count, "xpu": torch.xpu.device_count}.get(kind, lambda: 1)
    return int(index or 0) < count()


def slots_of(config: RunConfig, policies: Iterable[str], shape: Any) -> AdapterSlots | None:
    """Return how many adapters a run's engine mixes in a batch; None where it plays none, or does not say."""
    slots = engine_kind(config).slots
    return slots(config, shape) if slots is not None and any(config.policy(name).adapted for name in policies) else None


def check_context(config: RunConfig, roles: Roles, tokenizer: ChatTokenizer) -> None:
    """Raise UsageError, with the number that would work, if a game's prompts and replies exceed its context."""
    check = engine_kind(config).check_context
    if check is not None:
        check(config, longest_prompts(config, roles, tokenizer))


def longest_prompts(config: RunConfig, roles: Roles, tokenizer: ChatTokenizer) -> dict[str, int]:
    """Return, by game, the tokens of the longest prompt and its reply, in the matches that a cold start imitates."""
    from league.population.players.demonstrations import demonstrations

    longest: dict[str, int] = {}
    for chat, _, role, legal, *_ in demonstrations(config, roles):
        choice = role.reply is ReplyForm.CHOICE
        reply = max(map(len, tokenizer.trie(legal).tokens)) if choice else role.max_reply_tokens
        longest[role.game] = max(longest.get(role.game, 0), len(tokenizer.encode_prompt(chat)) + reply)
    return longest


def _make_torch(config: RunConfig, _: Callable[[], ModelSource]) -> TorchLM:
    from arena.samplers.torch_lm import TorchLM  # torch is slow to import

    return TorchLM(
        device=config.model.device,
        dtype=config.model.dtype,
        loaded=config.loaded_snapshots,
        separately=config.async_learners.streams and config.async_learners.batches_ahead > 0,
    )


def _make_vllm(config: RunConfig, source: Callable[[], ModelSource]) -> VllmLM:
    logging.getLogger("vllm").addHandler(logging.NullHandler())  # or its warnings are printed while it is imported
    from arena.samplers.vllm_lm import VllmLM
    from arena.samplers.vllm_process import VllmProcess  # takes many seconds to import

    tokenizer, base = source()
    return VllmLM(base, tokenizer, _vllm_shape(config, tokenizer, base), VllmProcess)


def _make_vllm_servers(config: RunConfig, source: Callable[[], ModelSource]) -> VllmLM:
    from arena.samplers.vllm_lm import VllmLM
    from arena.samplers.vllm_servers import ServerPool, VllmServers

    settings, (tokenizer, base) = config.engine.vllm_server, source()
    key = os.environ.get(settings.key_variable, "") if settings.key_variable else ""
    pool = ServerPool(settings.replicas, settings.tensor_parallel, settings.urls, settings.timeout, key, _server_gpus())
    return VllmLM(base, tokenizer, _vllm_shape(config, tokenizer, base), partial(VllmServers, pool=pool))


def _spread(config: RunConfig) -> ServerSpread:
    """Return the servers that are started, or the given ones in their place."""
    servers = config.engine.vllm_server
    return ServerSpread(0 if servers.urls else servers.replicas, len(servers.urls), servers.tensor_parallel)


def _server_gpus() -> tuple[str, ...]:
    """Return the GPUs for our servers, the last ones first: the first ones are the learner's. (): CPU."""
    import torch  # slow to import

    if not torch.cuda.is_available():
        return ()
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    devices = named.split(",") if named else [str(index) for index in range(torch.cuda.device_count())]
    return tuple(reversed(devices))


def _vllm_shape(config: RunConfig, tokenizer: ChatTokenizer, base: Path | str | None) -> VllmShape:
    from arena.lm.tokenization import read_config
    from arena.samplers.vllm_shape import VllmShape

    settings = config.engine.vllm
    return VllmShape(
        adapters=base is not None,
        max_loras=1 if base is None else adapter_slots(config, read_config(base)).number,
        max_lora_rank=settings.max_lora_rank,
        cached_adapters=config.loaded_snapshots,
        max_model_len=min(settings.max_model_len, tokenizer.context or settings.max_model_len),
        dtype=settings.dtype or config.model.dtype,
        memory_share=settings.gpu_memory_utilization,
        kv_gib=settings.kv_cache_gib,
        sleep=settings.sleep,
    )


def _fit_vllm(config: RunConfig) -> RunConfig:
    ranks = [config.engine.vllm.max_lora_rank, *(p.rank for p in config.policies.values() if p.adapted)]
    table = config.model_dump(exclude_none=True)
    table["engine"]["vllm"]["max_lora_rank"] = next((r for r in VLLM_RANKS if r >= max(ranks)), VLLM_RANKS[-1])
    return validate(table)


def _check_vllm(config: RunConfig, policies: Iterable[str]) -> None:
    _check_vllm_policies(config, list(policies))
    if config.engine.vllm.sleep:
        _check_vllm_sleep(config)


def _check_vllm_servers(config: RunConfig, policies: Iterable[str]) -> None:
    import torch  # slow to import

    names, servers = list(policies), config.engine.vllm_server
    _check_vllm_policies(config, names)
    if config.engine.vllm.sleep:
        raise UsageError("engine.vllm.sleep = true, but servers keep their memory. Set it to false.")
    variable = servers.key_variable
    if variable is not None and not os.environ.get(variable):
        raise UsageError(f"engine.vllm_server.key_variable = {variable!r}, but that variable is not set. Set it.")
    if servers.urls:
        whole = [name for name in names if not config.policy(name).adapted]
        if whole:
            raise UsageError(
                f"policies.{whole[0]}.weights = 'full', but a server run by others (engine.vllm_server.urls) only "
                "takes adapters. Set it to 'lora', or engine.vllm_server.urls = [], so that servers are started here."
            )
        return
    require_engine("vllm", "engine.kind =")
    wanted, here = servers.replicas * servers.tensor_parallel, torch.cuda.device_count()
    if here and wanted > here:
        raise UsageError(
            f"engine.vllm_server asks for {wanted} GPUs ({servers.replicas} replicas of {servers.tensor_parallel}), "
            f"but this machine has {here}. Set engine.vllm_server.replicas = "
            f"{max(here // servers.tensor_parallel, 1)}, or a "
            "lower tensor_parallel."
        )


def _check_vllm_policies(config: RunConfig, policies: Sequence[str]) -> None:
    adapted = [name for name in policies if config.policy(name).adapted]
    if adapted and len(adapted) < len(policies):
        full = ", ".join(name for name in policies if name not in adapted)
        raise UsageError(
            f"One vLLM serves adapters on one base, or full models in turn, but in this run {full} would "
            "be full and the other policies adapters. Give all the same policies.NAME.weights, or set engine.kind = "
            "'torch'."
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
    import torch  # slow to import

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


def check_model(context: RunContext) -> None:
    """Raise UsageError if a model is not on this machine, cannot be read, or has too short a context for a game."""
    from arena.lm.tokenization import ChatTokenizer  # torch is slow to import

    for source in context.config.pretrained(context.policies):
        tokenizer = ChatTokenizer.read(model_folder(source))
        if tokenizer.context is None:
            continue
        for game, tokens in longest_prompts(context.config, context.roles, tokenizer).items():
            if tokens > tokenizer.context:
                raise UsageError(
                    f"In trial matches of {game}, the longest prompt and its reply take {tokens} tokens, but {source} "
                    f"reads at most {tokenizer.context}. Lower roles.max_reply_tokens if replies are free, give "
                    "a shorter role card (roles.cards), which may show less of what came before (league show docs "
                    "long_matches), or use a model with a longer context."
                )


ENGINES: Registry[EngineKind] = Registry(
    "engines",
    "engine",
    EngineKind,
    "engine.kind",
    {
        "torch": EngineKind(_make_torch, description="PyTorch, in the process of the run", server=Server.HERE),
        "vllm": EngineKind(
            _make_vllm,
            settings=VllmSettings,
            check=_check_vllm,
            description="vLLM, in separate processes",
            streams=True,
            separate_process=True,
            fit=_fit_vllm,
            check_context=_check_vllm_context,
            slots=adapter_slots,
            package=EnginePackage(
                "vLLM", "vllm", "pip install 'llm-league[vllm]'; without a GPU, see: league show docs engines"
            ),
            server=Server.ITS_OWN,
            wants_gpu=True,
        ),
        "vllm_server": EngineKind(
            _make_vllm_servers,
            settings=VllmServerSettings,
            check=_check_vllm_servers,
            description="vLLM over HTTP: servers started here, or run by others",
            streams=True,
            separate_process=True,
            fit=_fit_vllm,
            check_context=_check_vllm_context,
            slots=adapter_slots,
            server=Server.ITS_OWN,
            spread=_spread,
            wants_gpu=True,
        ),
    },
    reserved=EngineConfig.model_fields,
)
register = ENGINES.register
