"""Replies of one language model to prompts that arrive at any time; waiting prompts are computed together.

One thread has the model. A reply is drawn from its own seed, and depends on the others beside it by rounding alone.
What nobody waits for any more is not started, and a batch that nobody waits for ends at its next step.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from math import inf
from queue import SimpleQueue
from typing import NamedTuple

import torch
from torch import Tensor

from arena.lm.chunks import Chunk, Tokens
from arena.lm.decoding.decode import generate
from arena.lm.finite import check_logprobs
from arena.lm.language_model import LanguageModel
from arena.lm.logprobs import truncate
from arena.samplers.pass_cache import PassCache
from arena.samplers.trie_sampling import sample_on_trie, tempered
from roles.trie import ReplyTrie, token_logprobs
from roles.truncation import Truncation

MAX_BATCH_TOKENS = 8192  # padded tokens of prompts in one forward pass
MAX_BATCH = 256  # replies that are computed side by side
MAX_CACHED_TOKENS = 2**16  # of prompts and replies whose keys and values are held at a time
SCORED = 256  # tokens whose log-probs over the vocabulary are held at a time
GREEDY = Truncation(top_k=1)


class Prompt(NamedTuple):
    """One reply that is asked for."""

    ids: Tokens  # of the chat, up to where the reply begins  # [P]
    choice: ReplyTrie | None  # what the reply is constrained to; None: nothing
    temperature: float  # 0: the likeliest token at each place
    truncation: Truncation
    max_tokens: int  # of a reply that is not constrained
    seed: int | str
    top: int | None  # how many tokens are returned at each position beside the sampled one; None: no log-probs


class TokenScore(NamedTuple):
    """A sampled token with its log-prob, in nats: as sampled; at temperature 0, as at 1 and before truncation."""

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...]  # the likeliest tokens, the sampled one perhaps among them


class Completed(NamedTuple):
    """A reply."""

    text: str
    ids: Tokens  # the end token last, unless the length limit cut it  # [T]
    finished: bool  # by its end token
    scores: tuple[TokenScore, ...]  # [T]; empty if they were not asked for


class Stopped(Exception):
    """Nobody waits for what is being computed."""


class Awaited(Future[Completed]):
    """A reply to come."""

    given_up = False  # nobody waits for it, even where it is being computed

    def cancel(self) -> bool:
        """Wait no longer."""
        self.given_up = True
        return super().cancel()


class Completions:
    """The replies of a model; a context manager that ends its thread, at the next step of what it computes."""

    def __init__(self, lm: LanguageModel, name: str) -> None:
        self.lm, self.name = lm, name
        self._passes = PassCache(lm)
        self._waiting: SimpleQueue[tuple[Prompt, Awaited] | None] = SimpleQueue()
        self._closing = False
        self._thread = threading.Thread(target=self._work, name="completions", daemon=True)

    def __enter__(self) -> Completions:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing = True
        self._waiting.put(None)
        self._thread.join()

    def submit(self, prompt: Prompt) -> Awaited:
        """Ask for a reply. The future raises what the model's passes raise, and is cancelled where these end."""
        future = Awaited()
        self._waiting.put((prompt, future))
        return future

    def _work(self) -> None:
        """Compute what waits, batch after batch, until there is nothing more to come."""
        while not self._closing:
            batch = [self._waiting.get()]
            while not self._waiting.empty() and len(batch) < MAX_BATCH:
                batch.append(self._waiting.get())
            self._answer([one for one in batch if one is not None and one[1].set_running_or_notify_cancel()])
        while not self._waiting.empty():
            if (one := self._waiting.get()) is not None:
                one[1].cancel()

    def _answer(self, asked: Sequence[tuple[Prompt, Awaited]]) -> None:
        def stopped() -> bool:
            return self._closing or all(future.given_up for _, future in asked)

        try:
            done = self.complete([prompt for prompt, _ in asked], stopped)
        except Exception as error:  # noqa: BLE001  # the client gets the error
            for _, future in asked:
                future.set_exception(error)
        else:
            for (_, future), completion in zip(asked, done, strict=True):
                future.set_result(completion)

    @torch.inference_mode()
    def complete(self, prompts: Sequence[Prompt], stopped: Callable[[], bool] = lambda: False) -> list[Completed]:
        """Return one reply for each prompt.

        Raises NotFinite for a model whose numbers are not finite, and Stopped once ``stopped`` says so.
        """
        done: dict[int, Completed] = {}
        groups: dict[tuple[object, ...], list[int]] = {}
        for i, prompt in enumerate(prompts):
            free = (prompt.temperature, prompt.truncation, prompt.max_tokens)
            groups.setdefault(() if prompt.choice else free, []).append(i)
        for key, indices in groups.items():
            asked = [prompts[i] for i in indices]
            computed = self._decode(asked, stopped) if key else self._choose(asked, stopped)
            done.update(zip(indices, computed, strict=True))
        return [done[i] for i in range(len(prompts))]

    def _choose(self, prompts: Sequence[Prompt], stopped: Callable[[], bool]) -> list[Completed]:
        """Return one of the allowed replies of each prompt, from their exact distribution."""
        nodes: dict[tuple[Tokens, tuple[str, ...]], Sequence[Sequence[float]]] = {}
        asked: list[tuple[Tokens, ReplyTrie]] = []
        for prompt in prompts:
            trie = _trie(prompt)
            if (prompt.ids, trie.replies) in nodes:
                continue
            nodes[prompt.ids, trie.replies] = ()
            if _is_wide(prompt.ids, trie):
                nodes[prompt.ids, trie.replies] = self._wide_nodes(prompt.ids, trie, stopped)
            elif trie.prefixes:
                asked.append((prompt.ids, trie))
        tries = [trie for _, trie in asked]
        for chunk in self.lm.plan_choice([ids for ids, _ in asked], tries, MAX_BATCH_TOKENS):
            _check(stopped)
            values, first = self._passes.nodes(chunk, tries, 1.0), 0
            for item in chunk.items:
                ids, trie = asked[item]
                rows = values[first : first + len(trie.prefixes)]
                # A row is as long as the longest of its pass.
                nodes[ids, trie.replies] = [row[: len(own)] for row, own in zip(rows, trie.branches, strict=True)]
                first += len(rows)
        return [self._chosen(prompt, nodes[prompt.ids, _trie(prompt).replies]) for prompt in prompts]

    def _wide_nodes(self, ids: Tokens, trie: ReplyTrie, stopped: Callable[[], bool]) -> list[list[float]]:
        """Return the log-probs at the branching nodes of a trie that is too large for one pass, and for the cache."""
        cut = len(ids) - 1 if self.lm.shares_prefix else 0
        prefix = self.lm.prefix_inputs(ids[:cut])
        width = len(ids) - cut + len(trie.prefixes[-1])  # the last is the longest
        step, rows = max(min(MAX_BATCH_TOKENS // width, MAX_BATCH), 1), []
        for first in range(0, len(trie.prefixes), step):
            _check(stopped)
            suffixes = tuple((*ids[cut:], *node) for node in trie.prefixes[first : first + step])
            logits = self.lm.run(Chunk(ids[:cut], (0,), suffixes), 1, prefix_inputs=prefix).logits[:, 0]
            for row, branches in zip(logits, trie.branches[first : first + step], strict=True):
                rows.append(row[list(branches)].float().log_softmax(-1).tolist())
        return rows

    def _chosen(self, prompt: Prompt, nodes: Sequence[Sequence[float]]) -> Completed:
        """Draw a reply from the log-probs at the branching nodes of its trie."""
        trie = _trie(prompt)
        for row in nodes:
            check_logprobs(self.name, sum(row), live=False)
        shown = [tempered(row, prompt.temperature or 1.0) for row in nodes]
        drawn = shown if prompt.temperature else [_one_hot(row) for row in nodes]
        reply = draw_on_trie(trie, drawn, random.Random(prompt.seed))
        scores = () if prompt.top is None else _scores_on_trie(trie, shown, reply, prompt.top)
        return Completed(trie.replies[reply], trie.tokens[reply], True, scores)

    def _decode(self, prompts: Sequence[Prompt], stopped: Callable[[], bool]) -> list[Completed]:
        """Return free replies of prompts with one temperature, truncation and length."""
        longest = max(len(prompt.ids) for prompt in prompts) + prompts[0].max_tokens
        step = max(MAX_CACHED_TOKENS // longest, 1)
        done = []
        for first in range(0, len(prompts), step):
            done += self._decode_together(prompts[first : first + step], stopped)
        return done

    def _decode_together(self, prompts: Sequence[Prompt], stopped: Callable[[], bool]) -> list[Completed]:
        _check(stopped)
        temperature, truncation = prompts[0].temperature, prompts[0].truncation
        sampled = generate(
            self.lm,
            [prompt.ids for prompt in prompts],
            [_Draws(prompt.seed, stopped) for prompt in prompts],
            temperature=temperature or 1.0,
            max_tokens=prompts[0].max_tokens,
            max_batch_tokens=MAX_BATCH_TOKENS,
            truncation=truncation if temperature else GREEDY,
        )
        done = []
        for prompt, (ids, logprobs) in zip(prompts, sampled, strict=True):
            _check(stopped)
            check_logprobs(self.name, sum(logprobs), live=False)
            scores = () if prompt.top is None else self._scores(prompt, ids, prompt.top)
            done.append(Completed(self.lm.decode(ids), ids, ids[-1] == self.lm.end_token, scores))
        return done

    def _scores(self, prompt: Prompt, ids: Tokens, top: int) -> tuple[TokenScore, ...]:
        """Return the log-probs of a free reply's tokens, from one pass over all of it."""
        [chunk] = self.lm.plan([prompt.ids], [(ids,)], MAX_BATCH_TOKENS)
        logits = self.lm.reply_logits(chunk, [ids])[0, : len(ids)]
        scores: list[TokenScore] = []
        for first in range(0, len(ids), SCORED):
            scores += _token_scores(prompt, ids[first : first + SCORED], logits[first : first + SCORED].float(), top)
        return tuple(scores)


class _Draws(random.Random):
    """The draws of one reply, a number for each token: where they are made step by step, they can end with a step."""

    def __init__(self, seed: int | str, stopped: Callable[[], bool]) -> None:
        super().__init__(seed)
        self._stopped = stopped

    def random(self) -> float:
        _check(self._stopped)
        return super().random()


def _check(stopped: Callable[[], bool]) -> None:
    if stopped():
        raise Stopped


def _trie(prompt: Prompt) -> ReplyTrie:
    assert prompt.choice is not None
    return prompt.choice


def _is_wide(ids: Tokens, trie: ReplyTrie) -> bool:
    """Return whether the nodes of a trie behind a prompt are more than one pass should have, or too many to keep."""
    nodes, longest = len(trie.prefixes), max(map(len, trie.prefixes), default=0)
    return len(trie.replies) > MAX_BATCH or nodes * (len(ids) + longest) > MAX_BATCH_TOKENS


def draw_on_trie(trie: ReplyTrie, nodes: Sequence[Sequence[float]], rng: random.Random) -> int:
    """Return the index of a reply that is drawn from the log-probs at the trie's branching nodes."""
    at = dict(zip(trie.prefixes, nodes, strict=True))

    async def node(prefix: Tokens, _: Tokens) -> Sequence[float]:
        return at[prefix]

    drawing = sample_on_trie(trie, node, rng)
    try:
        drawing.send(None)  # nothing in it waits
    except StopIteration as end:
        return int(end.value[0])
    raise RuntimeError("a draw waited")


def _token_scores(prompt: Prompt, ids: Tokens, logits: Tensor, top: int) -> list[TokenScore]:
    """Return the scores of tokens by the logits at their places.  # [T, V]"""
    if prompt.temperature:
        targets = torch.tensor(ids, device=logits.device)
        logits = truncate(logits / prompt.temperature, prompt.truncation, targets)
    logprobs = logits.log_softmax(-1)
    likeliest = logprobs.topk(top)
    pairs = zip(likeliest.indices.tolist(), likeliest.values.tolist(), strict=True)
    return [
        TokenScore(token, row[token].item(), tuple(zip(tokens, values, strict=True)))
        for token, row, (tokens, values) in zip(ids, logprobs, pairs, strict=True)
    ]


def _one_hot(logprobs: Sequence[float]) -> list[float]:
    """Return log-probs that leave the first of the likeliest alone."""
    likeliest = max(range(len(logprobs)), key=logprobs.__getitem__)
    return [0.0 if i == likeliest else -inf for i in range(len(logprobs))]


def _scores_on_trie(trie: ReplyTrie, nodes: Sequence[Sequence[float]], reply: int, top: int) -> tuple[TokenScore, ...]:
    """Return the log-probs of a reply's tokens under the mask, and of those beside them; a forced token has 0."""
    ids = trie.tokens[reply]
    others = {
        len(trie.prefixes[node]): zip(trie.branches[node], nodes[node], strict=True) for node, _ in trie.paths[reply]
    }
    scores = []
    for place, (token, logprob) in enumerate(zip(ids, token_logprobs(trie, nodes, reply), strict=True)):
        likeliest = sorted(others.get(place, [(token, 0.0)]), key=lambda pair: -pair[1])[:top]
        scores.append(TokenScore(token, logprob, tuple(likeliest)))
    return tuple(scores)
