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
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from math import exp, isfinite, nan
from pathlib import Path
from typing import Any, TypeVar

from arena.errors import EngineError, check_tabular
from arena.lm.chunks import Tokens
from arena.lm.finite import check_logprobs
from arena.lm.language_model import LanguageModel
from arena.lm.tokenization import MAX_CACHED_PROMPTS, ChatTokenizer
from arena.match_rng import MatchRng
from arena.records import Reply, ReplyRequest, TokenTrace
from arena.samplers.trie_sampling import sample_on_trie, tempered
from arena.samplers.vllm_shape import Vllm, VllmShape, Weights, last_lines
from arena.samplers.vllm_weights import PlayerWeights
from games.common.errors import UsageError
from roles.chat_text import as_chat
from roles.prompts import messages
from roles.role import ReplyForm
from roles.trie import token_logprobs

_T = TypeVar("_T")
MIN_TEMPERATURE = 0.01  # vLLM raises lower temperatures to this one


class VllmLM:
    """A sampler for language models in one vLLM engine. Players are added as live models or registered as folders."""

    def __init__(
        self,
        base: str | Path | None,
        tokenizer: ChatTokenizer,
        shape: VllmShape,
        start: Callable[[str | Path, VllmShape, Path], Vllm] | None = None,
    ) -> None:
        """Take the base of all adapters (None: players are whole models). vLLM is started at the first request.

        ``start(source, shape, log)`` starts it or finds it; None: in processes of this one's.
        """
        self._base, self.tokenizer, self._shape, self._start = base, tokenizer, shape, start or _process
        self._nodes: dict[tuple[str, Tokens, Tokens], asyncio.Task[tuple[float, ...]]] = {}
        self._prompts: dict[Any, Tokens] = {}
        self._folder = Path(tempfile.mkdtemp(prefix="league-vllm-"))
        self._weights = PlayerWeights(base, shape, self._folder, self._forget)
        self.tokens = 0  # prompt and reply tokens that the replies so far consist of
        self._process: Vllm | None = None
        atexit.register(self.close)

    def add(self, player: str, lm: LanguageModel) -> None:
        """Add a live model; its weights at each ``refresh`` are used by matches that begin afterwards."""
        self._weights.add(player, lm)

    def register(
        self, player: str, source: str | Path, check: Callable[[], object] | None = None, like: object = None
    ) -> None:
        """Register a folder or the engine's base, loaded at the first request after ``check``, which may raise."""
        self._weights.register(player, source, check)

    def keep(self, name: str, player: str, lm: LanguageModel) -> None:
        """Add a player with a live one's present weights, which it keeps until ``drop``."""
        self._weights.keep(name, lm)

    def drop(self, name: str) -> None:
        """Remove a player that ``keep`` added."""
        self._weights.forget(name)

    def refresh(self) -> None:
        """Use the present live weights for all matches that begin from now on."""
        self._weights.refresh()
        self._nodes = {}
        if len(self._prompts) > MAX_CACHED_PROMPTS:
            self._prompts.clear()

    def pin(self, player: str) -> str:
        """See ``PinsWeights``."""
        return self._weights.pin(player)

    def unpin(self, weights: str) -> None:
        """See ``PinsWeights``."""
        self._weights.unpin(weights)

    def submit(self, request: ReplyRequest) -> Future[Reply]:
        """See ``Streaming``. One number of 63 bits is drawn from the request's generator."""
        weights = self._weights.of(request.player)
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
            weights, prompt = self._weights.of(request.player), self._prompt(request)
            futures.append(self._vllm(weights).submit(self._probabilities(request, weights, prompt)))
        return _results(futures)

    def beliefs(self, requests: Sequence[ReplyRequest]) -> list[tuple[float, ...] | None]:
        """Return the exact probabilities of each request's answers."""
        return [*self.distributions(requests)]

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

    def _forget(self, weights: Weights) -> None:
        if self._process is not None:
            self._process.forget(weights)

    def _vllm(self, weights: Weights) -> Vllm:
        """Return vLLM, started on the base or, if there is none, on the first request's weights."""
        if self._process is None:
            source = self._base or weights.folder
            log = self._folder / "vllm.log"
            try:
                self._process = self._start(source, self._shape, log)
            except Exception as error:
                sentence = f"vLLM could not be started on {source}: {type(error).__name__}: {error}"
                raise EngineError(f"{sentence}{last_lines(log)}") from error
        return self._process

    def _prompt(self, request: ReplyRequest) -> Tokens:
        asked = request.role, request.observation, request.legal, request.refusals, request.form
        key = *asked, request.chat
        if key not in self._prompts:
            chat = as_chat(request.chat) if request.chat else messages(*asked)
            prompt = self.tokenizer.encode_prompt(chat)
            role, most = request.role, self._shape.max_model_len
            choice = role.reply is ReplyForm.CHOICE
            reply = max(map(len, self.tokenizer.trie(request.legal).tokens)) if choice else role.max_reply_tokens
            if len(prompt) + reply > most:
                raise UsageError(
                    f"A prompt of {role.name} in {role.game} is {len(prompt)} tokens long and its reply up to {reply}, "
                    f"but the engine reads at most {most}. "
                    f"Set engine.vllm.max_model_len = {len(prompt) + reply} or more."
                )
            self._prompts[key] = prompt
        return self._prompts[key]

    async def _sample_choice(self, request: ReplyRequest, weights: Weights, prompt: Tokens, seed: int) -> Reply:
        trie, temperature = self.tokenizer.trie(request.legal), request.role.temperature

        async def node_logprobs(prefix: Tokens, allowed: Tokens) -> tuple[float, ...]:
            return tempered(await self._node(weights, prompt + prefix, allowed), temperature)

        index, logprobs = await sample_on_trie(trie, node_logprobs, MatchRng(seed))
        trace = TokenTrace(
            weights.player, prompt, trie.tokens[index], logprobs, request.legal, temperature, version=weights.version
        )
        return self._count_tokens(Reply(trie.replies[index], trace))

    async def _sample_free(self, request: ReplyRequest, weights: Weights, prompt: Tokens, seed: int) -> Reply:
        ids, logprobs = await self._complete(
            weights,
            prompt,
            _sampled_logprobs,
            temperature=request.role.temperature,
            **request.role.truncation._asdict(),
            seed=seed,
            max_tokens=request.role.max_reply_tokens,
            stop_token_ids=[self.tokenizer.end_token],
            logprobs=0,
        )
        role = request.role
        trace = TokenTrace(
            weights.player,
            prompt,
            ids,
            logprobs,
            None,
            role.temperature,
            tuple(role.truncation),
            weights.version,
        )
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
        def allowed_logprobs(completion: Any) -> tuple[float, ...]:
            return tuple(_logprob(completion.logprobs[0], token) for token in allowed)

        settings = {"max_tokens": 1, "allowed_token_ids": list(allowed), "logprobs": len(allowed)}
        return (await self._complete(weights, ids, allowed_logprobs, **settings))[1]

    async def _complete(
        self, weights: Weights, ids: Tokens, read: Callable[[Any], tuple[float, ...]], **settings: Any
    ) -> tuple[Tokens, tuple[float, ...]]:
        """Return the tokens of vLLM's completion and the log-probs that ``read`` takes from it.

        Raises NotFinite for numbers that are not finite: finite weights may compute them. They stay in vLLM's keys and
        values, where a block of them that is used again breaks another player's reply (attention weighs what is beyond
        a sequence's end by 0, and 0 times NaN is NaN). So who computes them is asked again, alone, with none about.
        """
        process = self._vllm(weights)
        for generate in (process.generate, process.generate_alone):
            completion = await generate(ids, weights, **settings)
            logprobs = read(completion)
            if isfinite(sum(logprobs)):
                break
        check_logprobs(weights.player, sum(logprobs), live=self._weights.is_live(weights.player))
        return tuple(completion.token_ids), logprobs

    def _count_tokens(self, reply: Reply) -> Reply:
        if reply.trace is not None:
            self.tokens += len(reply.trace.prompt_ids) + len(reply.trace.reply_ids)
        return reply


def _process(source: str | Path, shape: VllmShape, log: Path) -> Vllm:
    from arena.samplers.vllm_process import VllmProcess  # takes many seconds to import, and servers need no vLLM here

    return VllmProcess(source, shape, log)


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


def _sampled_logprobs(completion: Any) -> tuple[float, ...]:
    """Return the log-prob of each token of a completion."""
    sampled = zip(completion.logprobs, completion.token_ids, strict=True)
    return tuple(_logprob(position, token) for position, token in sampled)


def _logprob(position: Mapping[int, Any], token: int) -> float:
    """Return a token's log-prob; where logits are NaN, vLLM lists other tokens than the ones that were asked for."""
    return float(position[token].logprob) if token in position else nan
