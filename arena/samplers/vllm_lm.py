"""The sampler for language models in vLLM.

Every snapshot of a LoRA policy is an adapter in one engine, which loads it when it is asked for and drops the one not
used longest. Whole models share one engine too, but in turn: their weights are exchanged in place.

A ``choice`` reply is drawn node by node along the token trie of the legal replies, each node's distribution being one
token's under vLLM's ``allowed_token_ids``. vLLM's own structured output masks by text and so lets a reply be spelled
by other tokens than the tokenizer's: that is another distribution than the one that learners and tables have.
"""

from __future__ import annotations

import asyncio
import atexit
import filecmp
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from itertools import count
from math import exp
from pathlib import Path
from typing import Any, TypeVar

from arena.adapters import is_adapter, read_shape
from arena.chunks import Tokens
from arena.descent import descend, tempered
from arena.errors import EngineError, check_table
from arena.lm import LanguageModel
from arena.records import Reply, ReplyRequest, TokenTrace
from arena.samplers.vllm import VllmProcess, VllmShape, Weights
from arena.streams import Stream
from arena.wording import KEPT_PROMPTS, Wording
from arena.zero_adapter import save_zero_adapter
from games.errors import UsageError, unknown_name
from roles.prompts import messages
from roles.role import ReplyForm
from roles.trie import token_logprobs

_T = TypeVar("_T")
COLDEST = 0.01  # what vLLM makes of every lower temperature


class VllmLM:
    """A sampler for language models in one vLLM engine. Players are added as live models or registered as folders."""

    def __init__(self, base: str | Path | None, wording: Wording, shape: VllmShape) -> None:
        """Take the base of all adapters (None: players are whole models); vLLM is started when it is first asked."""
        self._base, self.wording, self._shape = base, wording, shape
        self._live: dict[str, LanguageModel] = {}
        self._sources: dict[str, Callable[[], Path]] = {}
        self._current: dict[str, Weights] = {}  # by player
        self._stale: set[str] = set()  # live players whose weights may have changed
        self._kept: dict[str, Weights] = {}  # by name, those that matches play with
        self._users: Counter[str] = Counter()  # matches by name of weights
        self._numbers = count(1)
        self._nodes: dict[tuple[str, Tokens, Tokens], asyncio.Task[tuple[float, ...]]] = {}
        self._prompts: dict[Any, Tokens] = {}
        self._folder = Path(tempfile.mkdtemp(prefix="league-vllm-"))
        self.tokens = 0  # prompt and reply tokens that the replies so far consist of
        self._process: VllmProcess | None = None
        atexit.register(self.close)

    def add(self, player: str, lm: LanguageModel) -> None:
        """Seat a live model; what its weights are at each ``forget`` is seen by matches that begin after."""
        self._live[player] = lm
        self._stale.add(player)

    def register(
        self, player: str, source: str | Path, check: Callable[[], object] | None = None, like: object = None
    ) -> None:
        """Name a folder, or the engine's own base; it is loaded when first asked, after ``check`` (which may raise)."""

        def folder() -> Path:
            if check is not None:
                check()
            if not self._shape.adapters or is_adapter(source):
                return Path(source)
            if str(source) != str(self._base):
                raise UsageError(f"{source} is no adapter of {self._base}, which is the one model of this engine.")
            zero = self._folder / "zero"
            if not zero.exists():
                save_zero_adapter(source, zero)
            return zero

        self._sources[player] = folder

    def forget(self) -> None:
        """Take the live weights as they are now for all matches that begin from here on."""
        self._stale.update(self._live)
        self._nodes = {}
        if len(self._prompts) > KEPT_PROMPTS:
            self._prompts.clear()

    def keep(self, player: str) -> str:
        """See ``Keeper``."""
        weights = self._weights(player)
        self._kept[weights.name] = weights
        self._users[weights.name] += 1
        return weights.name

    def let_go(self, weights: str) -> None:
        """See ``Keeper``."""
        self._users[weights] -= 1
        if not self._users[weights]:
            self._drop(self._kept.pop(weights))

    def submit(self, request: ReplyRequest) -> Future[Reply]:
        """See ``Streaming``. One number of 63 bits is drawn from the request's generator."""
        weights = self._weights(request.player)
        if request.role.reply is ReplyForm.FREE and request.role.temperature < COLDEST:
            raise UsageError(
                f"The temperature of {request.role.name} in {request.role.game} is {request.role.temperature}, but "
                f"vLLM samples free replies at {COLDEST} or more. Set roles.temperature = {COLDEST}."
            )
        prompt, seed = self._prompt(request), request.rng.getrandbits(63)
        answer = self._choose if request.role.reply is ReplyForm.CHOICE else self._speak
        return self._started(weights).send(answer(request, weights, prompt, seed))

    def sample(self, requests: Sequence[ReplyRequest]) -> list[Reply]:
        """Return one reply for each request."""
        return _results([self.submit(request) for request in requests])

    def distributions(self, requests: Sequence[ReplyRequest]) -> list[tuple[float, ...]]:
        """Return the exact probabilities of each request's legal replies (``choice`` roles only)."""
        for request in requests:
            check_table(request.role)
        futures = []
        for request in requests:
            weights, prompt = self._weights(request.player), self._prompt(request)
            futures.append(self._started(weights).send(self._table(request, weights, prompt)))
        return _results(futures)

    def rest(self) -> None:
        """Let vLLM sleep, where its shape says so, until the next request: its weights wait in the machine's memory."""
        if self._shape.sleep and self._process is not None:
            _results([self._process.send(self._process.rest())])

    def close(self) -> None:
        """Stop vLLM. It cannot be used after."""
        atexit.unregister(self.close)
        if self._process is not None:
            self._process.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _started(self, weights: Weights) -> VllmProcess:
        """Return vLLM, started on the base or, where there is none, on the first weights that are asked."""
        if self._process is None:
            source = self._base or weights.folder
            try:
                self._process = VllmProcess(source, self._shape)
            except Exception as error:
                raise EngineError(f"vLLM could not be started on {source}: {type(error).__name__}: {error}") from error
        return self._process

    def _weights(self, player: str) -> Weights:
        """Return the weights of a player, or those that are kept under a name."""
        if player in self._kept:
            return self._kept[player]
        if player in self._live and player in self._stale:
            self._publish(player)
        elif player not in self._current:
            if player not in self._sources:
                raise unknown_name("language-model player", player, [*self._live, *self._sources])
            folder = self._sources[player]()
            self._check_rank(folder)
            self._current[player] = Weights(player, next(self._numbers), player, folder)
        return self._current[player]

    def _publish(self, player: str) -> None:
        """Write a live player's weights, under a new name if they differ from the last ones."""
        number, before = next(self._numbers), self._current.get(player)
        news = Weights(f"{player}#{number}", number, player, self._folder / str(number))
        self._live[player].save(news.folder)
        self._check_rank(news.folder)
        self._stale.discard(player)
        if before is not None and _same(before.folder, news.folder):
            shutil.rmtree(news.folder)
            return
        self._current[player] = news
        if before is not None:
            self._drop(before)

    def _drop(self, weights: Weights) -> None:
        """Remove what a live player's weights were once no match plays with them; vLLM forgets them by itself."""
        if weights.player in self._live and not self._users[weights.name] and self._current[weights.player] != weights:
            shutil.rmtree(weights.folder)

    def _check_rank(self, folder: Path) -> None:
        if self._shape.adapters and (rank := read_shape(folder).rank) > self._shape.max_lora_rank:
            raise UsageError(
                f"The adapter in {folder} has rank {rank}, and the engine takes {self._shape.max_lora_rank} at most. "
                f"Set engine.max_lora_rank = {rank}."
            )

    def _prompt(self, request: ReplyRequest) -> Tokens:
        key = request.role, request.observation, request.legal, request.refusals
        if key not in self._prompts:
            prompt = self.wording.encode_prompt(messages(*key))
            role, room = request.role, self._shape.max_model_len
            choice = role.reply is ReplyForm.CHOICE
            reply = max(map(len, self.wording.trie(request.legal).tokens)) if choice else role.max_reply_tokens
            if len(prompt) + reply > room:
                raise UsageError(
                    f"A prompt of {role.name} in {role.game} is {len(prompt)} tokens long and its reply up to {reply}, "
                    f"but the engine reads {room} at most. Set engine.max_model_len = {len(prompt) + reply} or more."
                )
            self._prompts[key] = prompt
        return self._prompts[key]

    async def _choose(self, request: ReplyRequest, weights: Weights, prompt: Tokens, seed: int) -> Reply:
        trie, temperature = self.wording.trie(request.legal), request.role.temperature

        async def node(prefix: Tokens, allowed: Tokens) -> tuple[float, ...]:
            return tempered(await self._node(weights, prompt + prefix, allowed), temperature)

        number, logprobs = await descend(trie, node, Stream(seed))
        trace = TokenTrace(weights.player, prompt, trie.tokens[number], logprobs, request.legal, temperature)
        return self._counted(Reply(trie.replies[number], trace))

    async def _speak(self, request: ReplyRequest, weights: Weights, prompt: Tokens, seed: int) -> Reply:
        completion = await self._started(weights).generate(
            prompt,
            weights,
            temperature=request.role.temperature,
            seed=seed,
            max_tokens=request.role.max_reply_tokens,
            stop_token_ids=[self.wording.end_token],
            logprobs=0,
        )
        ids = tuple(completion.token_ids)
        logprobs = tuple(place[token].logprob for place, token in zip(completion.logprobs, ids, strict=True))
        trace = TokenTrace(weights.player, prompt, ids, logprobs, None, request.role.temperature)
        return self._counted(Reply(self.wording.decode(ids), trace))

    async def _table(self, request: ReplyRequest, weights: Weights, prompt: Tokens) -> tuple[float, ...]:
        """Return the probability of each legal reply."""
        trie = self.wording.trie(request.legal)
        asked = zip(trie.prefixes, trie.branches, strict=True)
        found = await asyncio.gather(*[self._node(weights, prompt + prefix, allowed) for prefix, allowed in asked])
        nodes = [tempered(logprobs, request.role.temperature) for logprobs in found]
        return tuple(exp(sum(token_logprobs(trie, nodes, reply))) for reply in range(len(trie.replies)))

    async def _node(self, weights: Weights, ids: Tokens, allowed: Tokens) -> tuple[float, ...]:
        """Return the log-prob of each allowed next token at temperature 1, computed once until ``forget``."""
        key, nodes = (weights.name, ids, allowed), self._nodes  # ``forget`` may begin others meanwhile
        if key not in nodes:
            nodes[key] = asyncio.create_task(self._ask(weights, ids, allowed))
        return await asyncio.shield(nodes[key])  # others may wait for it too when one request is cancelled

    async def _ask(self, weights: Weights, ids: Tokens, allowed: Tokens) -> tuple[float, ...]:
        completion = await self._started(weights).generate(
            ids, weights, max_tokens=1, allowed_token_ids=list(allowed), logprobs=len(allowed)
        )
        return tuple(completion.logprobs[0][token].logprob for token in allowed)

    def _counted(self, reply: Reply) -> Reply:
        if reply.trace is not None:
            self.tokens += len(reply.trace.prompt_ids) + len(reply.trace.reply_ids)
        return reply


def _results(futures: Sequence[Future[_T]]) -> list[_T]:
    """Return what was asked of vLLM. Raises EngineError if it failed."""
    try:
        return [future.result() for future in futures]
    except UsageError:
        raise
    except Exception as error:
        raise EngineError(f"vLLM failed: {type(error).__name__}: {error}") from error
    finally:
        for future in futures:
            future.cancel()


def _same(one: Path, other: Path) -> bool:
    """Return whether two folders hold the same files."""
    names = sorted(path.name for path in one.iterdir())
    if names != sorted(path.name for path in other.iterdir()):
        return False
    return all(filecmp.cmp(one / name, other / name, shallow=False) for name in names)
