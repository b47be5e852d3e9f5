"""Which engine plays a run's language models, and whether it can: told before anything is started."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import torch

from arena.lm import LanguageModel
from arena.records import Reply, ReplyRequest
from arena.samplers.torch_lm import Like, TorchLM
from arena.wording import Wording
from games.errors import UsageError
from league.bases import verified_base
from league.config import RunConfig
from league.config_engine import RANKS
from league.start import Roles, demonstrations
from roles.role import ReplyForm

if TYPE_CHECKING:
    from arena.samplers.vllm_lm import VllmLM


class ModelEngine(Protocol):
    """An engine of language models, whether it answers in batches or as it goes."""

    @property
    def tokens(self) -> int:
        """Prompt and reply tokens that the replies so far consist of."""
        ...

    def add(self, player: str, lm: LanguageModel) -> None:
        """Seat a model that is being trained; its weights may change between ``forget`` calls."""
        ...

    def register(
        self, player: str, source: str | Path, check: Callable[[], object] | None = None, like: Like | None = None
    ) -> None:
        """Name a folder; it is loaded when first asked, after ``check`` (which may raise)."""
        ...

    def forget(self) -> None:
        """Take note that weights have changed."""
        ...

    def sample(self, requests: Sequence[ReplyRequest]) -> list[Reply]:
        """Return one reply for each request."""
        ...

    def distributions(self, requests: Sequence[ReplyRequest]) -> list[tuple[float, ...]]:
        """Return for each request the probability of each legal reply."""
        ...

    def rest(self) -> None:
        """Let go of memory that only answering takes, if the engine can; the next request takes it again."""
        ...

    def close(self) -> None:
        """Free what the engine holds. It cannot be used after."""
        ...


def check_engine(config: RunConfig, policies: Iterable[str]) -> None:
    """Raise UsageError, with what would work, if the engine cannot play these policies on this machine."""
    if config.model.device.startswith("cuda") and not torch.cuda.is_available():
        raise UsageError(
            f"model.device = {config.model.device!r}, but PyTorch finds no GPU here. Set model.device = 'cpu' and "
            "model.dtype = 'float32' for a small model, or train on a machine with an NVIDIA GPU."
        )
    if config.engine.kind == "torch":
        return
    kinds = {name: config.policy(name).kind for name in policies}
    if len(set(kinds.values())) > 1:
        whole = ", ".join(name for name, kind in kinds.items() if kind == "full")
        raise UsageError(
            f"One vLLM serves adapters on one base, or whole models in turn, but of this run's policies {whole} would "
            "be whole and the others adapters. Give all the same policies.NAME.kind, or set engine.kind = 'torch'."
        )
    for name, kind in kinds.items():
        rank = config.policy(name).rank
        if kind == "lora" and rank > config.engine.max_lora_rank:
            fits = next((one for one in RANKS if one >= rank), None)
            advice = f"engine.max_lora_rank = {fits}" if fits else f"policies.{name}.rank to {RANKS[-1]} or less"
            raise UsageError(
                f"policies.{name}.rank = {rank}, but engine.max_lora_rank = {config.engine.max_lora_rank}. "
                f"Set {advice}."
            )
    if config.engine.sleep:
        _check_sleep(config)
    vllm = find_spec("vllm")
    if vllm is None or vllm.origin is None:
        raise UsageError(
            "engine.kind = 'vllm', but vLLM is not installed. Install it (pip install 'llm-league[vllm]'; without a "
            "GPU, see docs/engines.md), or set engine.kind = 'torch'."
        )


def _check_sleep(config: RunConfig) -> None:
    if config.decoupled.learners != "none":
        raise UsageError(
            "engine.sleep = true lets vLLM and this process take turns with a GPU's memory, but learner processes "
            "(decoupled.learners) would keep theirs. Set it to false, or decoupled.learners to 'none'."
        )
    if not torch.cuda.is_available():
        raise UsageError(
            "engine.sleep = true lets vLLM and the learner share a GPU, but PyTorch finds no GPU here. Set it to false."
        )


def check_context(config: RunConfig, roles: Roles, wording: Wording) -> None:
    """Raise UsageError, with the number that would work, for a game whose prompts and replies vLLM could not hold.

    The prompts are those of the matches that a cold start imitates.
    """
    if config.engine.kind == "torch":
        return
    longest: dict[str, int] = {}
    for chat, _, role, legal in demonstrations(config, roles):
        choice = role.reply is ReplyForm.CHOICE
        reply = max(map(len, wording.trie(legal).tokens)) if choice else role.max_reply_tokens
        longest[role.game] = max(longest.get(role.game, 0), len(wording.encode_prompt(chat)) + reply)
    for game, tokens in longest.items():
        if tokens > config.engine.max_model_len:
            raise UsageError(
                f"In trial matches of {game}, the longest prompt and its reply take {tokens} tokens, but "
                f"engine.max_model_len = {config.engine.max_model_len}. Set it to {tokens} or more."
            )


def make_engine(config: RunConfig, run_dir: Path, wording: Wording, *, adapters: bool) -> ModelEngine:
    """Return the engine of a run's language models: of adapters on one base, or of whole models."""
    if config.engine.kind == "vllm":
        return _vllm(config, verified_base(config, run_dir) if adapters else None, wording)
    return _torch(config)


def engine_on(config: RunConfig, base: str, *, adapters: bool) -> ModelEngine:
    """Return the same engine on a base that lies in a folder of this machine, or on a hub."""
    if config.engine.kind == "vllm":
        return _vllm(config, base if adapters else None, Wording.read(base))
    return _torch(config)


def _torch(config: RunConfig) -> TorchLM:
    return TorchLM(device=config.model.device, dtype=config.model.dtype, loaded=config.loaded_snapshots)


def _vllm(config: RunConfig, base: Path | str | None, wording: Wording) -> VllmLM:
    from arena.samplers.vllm import VllmShape  # takes many seconds to import
    from arena.samplers.vllm_lm import VllmLM

    engine = config.engine
    shape = VllmShape(
        adapters=base is not None,
        max_loras=engine.max_loras,
        max_lora_rank=engine.max_lora_rank,
        cached_adapters=config.loaded_snapshots,
        max_model_len=min(engine.max_model_len, wording.room or engine.max_model_len),
        dtype=engine.dtype or config.model.dtype,
        memory_share=engine.gpu_memory_utilization,
        kv_gib=engine.kv_cache_gib,
        sleep=engine.sleep,
    )
    return VllmLM(base, wording, shape)
