"""The sampler for language models in vLLM.

Every snapshot of a LoRA policy is an adapter in one engine, which loads an adapter at its first request and drops the
least recently used one. Whole models share one engine too, but one at a time: their weights are exchanged in place.

A ``choice`` reply is drawn node by node along the token trie of the legal replies; a node's distribution is that of
one token under vLLM's ``allowed_token_ids``. vLLM's own structured output masks by text, and so allows other tokens of
a reply than the tokenizer's: that distribution differs from the one of learners and tables.
"""

from __future__ import annotations

import asyncio
import atexit
import filecmp
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from itertools import count
from math import exp, nan
from pathlib import Path
from typing import Any, TypeVar

from arena.errors import EngineError, check_tabular
from arena.lm.chunks import Tokens
from arena.lm.finite import check_logprobs, check_weights
from arena.lm.language_model import LanguageModel
from arena.lm.lora import is_adapter, read_shape
from arena.lm.tokenization import MAX_CACHED_PROMPTS, ChatTokenizer
from arena.match_rng import MatchRng
from arena.records import Reply, ReplyRequest, TokenTrace
from arena.samplers.trie_sampling import sample_on_trie, tempered
from arena.samplers.vllm_process import VllmProcess, VllmShape, Weights
from games.common.errors import UsageError, unknown_name
from roles.prompts import messages
from roles.role import ReplyForm
from roles.trie import token_logprobs

_T = TypeVar("_T")
MIN_TEMPERATURE = 0.01  # vLLM raises lower temperatures to this one
LOG_LINES = 12  # of vLLM's own that are shown where it could not be started


class VllmLM:
    """A sampler for language models in one vLLM engine. Players are added as live models or registered as folders."""

    def __init__(self, base: str | Path | None, tokenizer: ChatTokenizer, shape: VllmShape) -> None:
        """Take the base of all adapters (None: players are whole models). vLLM is started at the first request."""
        self._base, self.tokenizer, self._shape = base, tokenizer, shape
        self._live: dict[str, LanguageModel] = {}
        self._sources: dict[str, Callable[[], Path]] = {}
        self._current: dict[str, Weights] = {}  # by player
        self._stale: set[str] = set()  # live players whose weights may have changed
        self._pinned: dict[str, Weights] = {}  # by name
        self._pins: Counter[str] = Counter()  # by name of weights
        self._numbers = count(1)
        self._nodes: dict[tuple[str, Tokens, Tokens], asyncio.Task[tuple[float, ...]]] = {}
        self._prompts: dict[Any, Tokens] = {}
        self._folder = Path(tempfile.mkdtemp(prefix="league-vllm-"))
        self.tokens = 0  # prompt and reply tokens that the replies so far consist of
        self._process: VllmProcess | None = None
        atexit.register(self.close)

    def add(self, player: str, lm: LanguageModel) -> None:
        """Add a live model; its weights at each ``refresh`` are used by matches that begin afterwards."""
        self._live[player] = lm
        self._stale.add(player)

    def register(
        self, player: str, source: str | Path, check: Callable[[], object] | None = None, like: object = None
    ) -> None:
        """Register a folder or the engine's base, loaded at the first request after ``check``, which may raise."""

        def folder() -> Path:
            if check is not None:
                check()
            if not self._shape.adapters or is_adapter(source):
                return Path(source)
            if str(source) != str(self._base):
                raise UsageError(f"{source} is no adapter of {self._base}, which is the one model of this engine.")
            return Path(source)

        self._sources[player] = folder

    def refresh(self) -> None:
        """Use the present live weights for all matches that begin from now on."""
        self._stale.update(self._live)
        self._nodes = {}
        if len(self._prompts) > MAX_CACHED_PROMPTS:
            self._prompts.clear()

    def pin(self, player: str) -> str:
        """See ``PinsWeights``."""
        weights = self._weights(player)
        self._pinned[weights.name] = weights
        self._pins[weights.name] += 1
        return weights.name

    def unpin(self, weights: str) -> None:
        """See ``PinsWeights``."""
        self._pins[weights] -= 1
        if not self._pins[weights]:
            self._drop(self._pinned.pop(weights))

    def submit(self, request: ReplyRequest) -> Future[Reply]:
        """See ``Streaming``. One number of 63 bits is drawn from the request's generator."""
        weights = self._weights(request.player)
        if request.role.reply is ReplyForm.FREE and request.role.temperature < MIN_TEMPERATURE:
            raise UsageError(
                f"The temperature of {request.role.name} in {request.role.game} is {request.role.temperature}, but "
                f"vLLM samples free replies at {MIN_TEMPERATURE} or more. Set roles.temperature = {MIN_TEMPERATURE}."
            )
        prompt, seed = self._prompt(request), request.rng.getrandbits(63)
        sample = self._sample_choice if request.role.reply is ReplyForm.CHOICE else self._sample_free
        return self._vllm(weights).submit(sample(request, weights, prompt, seed))

    def sample(self, requests: Sequence[ReplyRequest]) -> list[Reply]:
        """Return one reply for each request."""
        return _results([self.submit(request) for request in requests])

    def distributions(self, requests: Sequence[ReplyRequest]) -> list[tuple[float, ...]]:
        """Return the exact probabilities of each request's legal replies (``choice`` roles only)."""
        for request in requests:
            check_tabular(request.role)
        futures = []
        for request in requests:
            weights, prompt = self._weights(request.player), self._prompt(request)
            futures.append(self._vllm(weights).submit(self._probabilities(request, weights, prompt)))
        return _results(futures)

    def sleep(self) -> None:
        """Let vLLM sleep until the next request, if its shape enables that: its weights move to CPU memory."""
        if self._shape.sleep and self._process is not None:
            _results([self._process.submit(self._process.sleep())])

    def close(self) -> None:
        """Stop vLLM. The engine cannot be used afterwards."""
        atexit.unregister(self.close)
        if self._process is not None:
            self._process.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _vllm(self, weights: Weights) -> VllmProcess:
        """Return vLLM, started on the base or, if there is none, on the first request's weights."""
        if self._process is None:
            source = self._base or weights.folder
            log = self._folder / "vllm.log"
            try:
                self._process = VllmProcess(source, self._shape, log)
            except Exception as error:
                told = f"vLLM could not be started on {source}: {type(error).__name__}: {error}"
                raise EngineError(f"{told}{_last_lines(log)}") from error
        return self._process

    def _weights(self, player: str) -> Weights:
        """Return the present weights of a player, or the pinned weights of a name."""
        if player in self._pinned:
            return self._pinned[player]
        if player in self._live and player in self._stale:
            self._publish(player)
        elif player not in self._current:
            if player not in self._sources:
                raise unknown_name("language-model player", player, [*self._live, *self._sources])
            folder = self._sources[player]()
            bare = self._shape.adapters and not is_adapter(folder)
            if not bare:
                self._check_rank(folder)
            check_weights(player, folder, live=False)
            self._current[player] = Weights(player, next(self._numbers), player, folder, bare)
        return self._current[player]

    def _publish(self, player: str) -> None:
        """Write a live player's weights, under a new name if they differ from the last ones."""
        number, before = next(self._numbers), self._current.get(player)
        weights = Weights(f"{player}#{number}", number, player, self._folder / str(number))
        self._live[player].save(weights.folder)
        self._check_rank(weights.folder)
        check_weights(player, weights.folder, live=True)
        self._stale.discard(player)
        if before is not None and _equal_files(before.folder, weights.folder):
            shutil.rmtree(weights.folder)
            return
        self._current[player] = weights
        if before is not None:
            self._drop(before)

    def _drop(self, weights: Weights) -> None:
        """Remove old weights of a live player that are not pinned; vLLM drops them by itself."""
        if weights.player in self._live and not self._pins[weights.name] and self._current[weights.player] != weights:
            shutil.rmtree(weights.folder)

    def _check_rank(self, folder: Path) -> None:
        if self._shape.adapters and (rank := read_shape(folder).rank) > self._shape.max_lora_rank:
            raise UsageError(
                f"The adapter in {folder} has rank {rank}, and the engine takes {self._shape.max_lora_rank} at most. "
                f"Set engine.vllm.max_lora_rank = {rank}."
            )

    def _prompt(self, request: ReplyRequest) -> Tokens:
        key = request.role, request.observation, request.legal, request.refusals, request.form
        if key not in self._prompts:
            prompt = self.tokenizer.encode_prompt(messages(*key))
            role, most = request.role, self._shape.max_model_len
            choice = role.reply is ReplyForm.CHOICE
            reply = max(map(len, self.tokenizer.trie(request.legal).tokens)) if choice else role.max_reply_tokens
            if len(prompt) + reply > most:
                raise UsageError(
                    f"A prompt of {role.name} in {role.game} is {len(prompt)} tokens long and its reply up to {reply}, "
                    f"but the engine reads {most} at most. "
                    f"Set engine.vllm.max_model_len = {len(prompt) + reply} or more."
                )
            self._prompts[key] = prompt
        return self._prompts[key]

    async def _sample_choice(self, request: ReplyRequest, weights: Weights, prompt: Tokens, seed: int) -> Reply:
        trie, temperature = self.tokenizer.trie(request.legal), request.role.temperature

        async def node_logprobs(prefix: Tokens, allowed: Tokens) -> tuple[float, ...]:
            return tempered(await self._node(weights, prompt + prefix, allowed), temperature)

        index, logprobs = await sample_on_trie(trie, node_logprobs, MatchRng(seed))
        trace = TokenTrace(weights.player, prompt, trie.tokens[index], logprobs, request.legal, temperature)
        return self._count_tokens(Reply(trie.replies[index], trace))

    async def _sample_free(self, request: ReplyRequest, weights: Weights, prompt: Tokens, seed: int) -> Reply:
        completion = await self._vllm(weights).generate(
            prompt,
            weights,
            temperature=request.role.temperature,
            **request.role.truncation._asdict(),
            seed=seed,
            max_tokens=request.role.max_reply_tokens,
            stop_token_ids=[self.tokenizer.end_token],
            logprobs=0,
        )
        ids = tuple(completion.token_ids)
        logprobs = tuple(_logprob(position, token) for position, token in zip(completion.logprobs, ids, strict=True))
        self._check_logprobs(weights, logprobs)
        role = request.role
        trace = TokenTrace(weights.player, prompt, ids, logprobs, None, role.temperature, role.truncation)
        return self._count_tokens(Reply(self.tokenizer.decode(ids), trace))

    async def _probabilities(self, request: ReplyRequest, weights: Weights, prompt: Tokens) -> tuple[float, ...]:
        """Return the probability of each legal reply."""
        trie = self.tokenizer.trie(request.legal)
        branching = zip(trie.prefixes, trie.branches, strict=True)
        logprobs = await asyncio.gather(*[self._node(weights, prompt + p, allowed) for p, allowed in branching])
        nodes = [tempered(node, request.role.temperature) for node in logprobs]
        return tuple(exp(sum(token_logprobs(trie, nodes, reply))) for reply in range(len(trie.replies)))

    async def _node(self, weights: Weights, ids: Tokens, allowed: Tokens) -> tuple[float, ...]:
        """Return the log-prob of each allowed next token at temperature 1, computed once until ``refresh``."""
        key, nodes = (weights.name, ids, allowed), self._nodes  # ``refresh`` may replace the dictionary meanwhile
        if key not in nodes:
            nodes[key] = asyncio.create_task(self._request_node(weights, ids, allowed))
        return await asyncio.shield(nodes[key])  # other requests may await it when one is cancelled

    async def _request_node(self, weights: Weights, ids: Tokens, allowed: Tokens) -> tuple[float, ...]:
        completion = await self._vllm(weights).generate(
            ids, weights, max_tokens=1, allowed_token_ids=list(allowed), logprobs=len(allowed)
        )
        logprobs = tuple(_logprob(completion.logprobs[0], token) for token in allowed)
        self._check_logprobs(weights, logprobs)
        return logprobs

    def _check_logprobs(self, weights: Weights, logprobs: Sequence[float]) -> None:
        """Raise NotFinite for numbers that are not finite: weights may compute them that are finite themselves."""
        check_logprobs(weights.player, sum(logprobs), live=weights.player in self._live)

    def _count_tokens(self, reply: Reply) -> Reply:
        if reply.trace is not None:
            self.tokens += len(reply.trace.prompt_ids) + len(reply.trace.reply_ids)
        return reply


def _results(futures: Sequence[Future[_T]]) -> list[_T]:
    """Return the futures' results. Raises EngineError if vLLM failed."""
    try:
        return [future.result() for future in futures]
    except UsageError:
        raise
    except Exception as error:
        raise EngineError(f"vLLM failed: {type(error).__name__}: {error}") from error
    finally:
        for future in futures:
            future.cancel()


def _logprob(position: Mapping[int, Any], token: int) -> float:
    """Return a token's log-prob; where logits are NaN, vLLM lists other tokens than the ones that were asked for."""
    return float(position[token].logprob) if token in position else nan


def _last_lines(log: Path) -> str:
    """Return the end of what vLLM's processes wrote, as the end of an error's text."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    return "".join(f"\n  {line}" for line in lines[-LOG_LINES:])


def _equal_files(a: Path, b: Path) -> bool:
    """Return whether two folders hold the same files."""
    names = sorted(path.name for path in a.iterdir())
    if names != sorted(path.name for path in b.iterdir()):
        return False
    return all(filecmp.cmp(a / name, b / name, shallow=False) for name in names)
