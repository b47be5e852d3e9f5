"""Replies of one language model to prompts that come at any time, of which those that wait are computed side by side.

One thread has the model. A reply is drawn from its own seed, and depends on the others beside it by rounding alone.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from math import inf
from queue import SimpleQueue
from typing import NamedTuple

import torch

from arena.lm.chunks import Tokens
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
GREEDY = Truncation(top_k=1)


class Prompt(NamedTuple):
    """One reply that is asked for."""

    ids: Tokens  # of the chat, up to where the reply begins  # [P]
    choice: tuple[str, ...]  # what the reply is constrained to; (): nothing
    temperature: float  # 0: the likeliest token at each place
    truncation: Truncation
    max_tokens: int  # of a reply that is not constrained
    seed: int | str
    top: int | None  # how many tokens are told at each place beside the sampled one; None: no log-probs


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


class Completions:
    """The replies of a model; a context manager that ends its thread."""

    def __init__(self, lm: LanguageModel, name: str) -> None:
        self.lm, self.name = lm, name
        self._passes = PassCache(lm)
        self._waiting: SimpleQueue[tuple[Prompt, Future[Completed]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="completions", daemon=True)

    def __enter__(self) -> Completions:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._waiting.put(None)
        self._thread.join()

    def submit(self, prompt: Prompt) -> Future[Completed]:
        """Ask for a reply. The future raises what the model's passes raise."""
        future: Future[Completed] = Future()
        self._waiting.put((prompt, future))
        return future

    def _work(self) -> None:
        """Compute what waits, batch after batch, until there is nothing more to come."""
        while True:
            batch = [self._waiting.get()]
            while not self._waiting.empty() and len(batch) < MAX_BATCH:
                batch.append(self._waiting.get())
            asked = [one for one in batch if one is not None and one[1].set_running_or_notify_cancel()]
            try:
                done = self.complete([prompt for prompt, _ in asked])
            except Exception as error:  # noqa: BLE001  # whoever asked is told
                for _, future in asked:
                    future.set_exception(error)
            else:
                for (_, future), completion in zip(asked, done, strict=True):
                    future.set_result(completion)
            if None in batch:
                return

    @torch.inference_mode()
    def complete(self, prompts: Sequence[Prompt]) -> list[Completed]:
        """Return one reply for each prompt. Raises NotFinite for a model whose numbers are not finite."""
        done: dict[int, Completed] = {}
        groups: dict[tuple[object, ...], list[int]] = {}
        for i, prompt in enumerate(prompts):
            free = (prompt.temperature, prompt.truncation, prompt.max_tokens)
            groups.setdefault(() if prompt.choice else free, []).append(i)
        for key, indices in groups.items():
            asked = [prompts[i] for i in indices]
            done.update(zip(indices, self._decode(asked) if key else self._choose(asked), strict=True))
        return [done[i] for i in range(len(prompts))]

    def _choose(self, prompts: Sequence[Prompt]) -> list[Completed]:
        """Return one of the allowed replies of each prompt, from their exact distribution."""
        nodes: dict[tuple[Tokens, tuple[str, ...]], Sequence[Sequence[float]]] = {}
        for prompt in prompts:
            nodes.setdefault((prompt.ids, prompt.choice), ())
        asked = [(ids, trie) for ids, choice in nodes if (trie := self.lm.trie(choice)).prefixes]
        tries = [trie for _, trie in asked]
        for chunk in self.lm.plan_choice([ids for ids, _ in asked], tries, MAX_BATCH_TOKENS):
            values, first = self._passes.nodes(chunk, tries, 1.0), 0
            for item in chunk.items:
                ids, trie = asked[item]
                rows = values[first : first + len(trie.prefixes)]
                # A row is as long as the longest of its pass.
                nodes[ids, trie.replies] = [row[: len(own)] for row, own in zip(rows, trie.branches, strict=True)]
                first += len(rows)
        return [self._chosen(prompt, nodes[prompt.ids, prompt.choice]) for prompt in prompts]

    def _chosen(self, prompt: Prompt, nodes: Sequence[Sequence[float]]) -> Completed:
        """Draw a reply from the log-probs at the branching nodes of its trie."""
        trie = self.lm.trie(prompt.choice)
        for row in nodes:
            check_logprobs(self.name, sum(row), live=False)
        shown = [tempered(row, prompt.temperature or 1.0) for row in nodes]
        drawn = shown if prompt.temperature else [_one_hot(row) for row in nodes]
        reply = draw_on_trie(trie, drawn, random.Random(prompt.seed))
        scores = () if prompt.top is None else _scores_on_trie(trie, shown, reply, prompt.top)
        return Completed(trie.replies[reply], trie.tokens[reply], True, scores)

    def _decode(self, prompts: Sequence[Prompt]) -> list[Completed]:
        """Return free replies of prompts with one temperature, truncation and length."""
        temperature, truncation = prompts[0].temperature, prompts[0].truncation
        sampled = generate(
            self.lm,
            [prompt.ids for prompt in prompts],
            [random.Random(prompt.seed) for prompt in prompts],
            temperature=temperature or 1.0,
            max_tokens=prompts[0].max_tokens,
            max_batch_tokens=MAX_BATCH_TOKENS,
            truncation=truncation if temperature else GREEDY,
        )
        done = []
        for prompt, (ids, logprobs) in zip(prompts, sampled, strict=True):
            check_logprobs(self.name, sum(logprobs), live=False)
            scores = () if prompt.top is None else self._scores(prompt, ids, prompt.top)
            done.append(Completed(self.lm.decode(ids), ids, ids[-1] == self.lm.end_token, scores))
        return done

    def _scores(self, prompt: Prompt, ids: Tokens, top: int) -> tuple[TokenScore, ...]:
        """Return the log-probs of a free reply's tokens, from one pass over all of it."""
        [chunk] = self.lm.plan([prompt.ids], [(ids,)], MAX_BATCH_TOKENS)
        logits = self.lm.reply_logits(chunk, [ids])[0, : len(ids)].float()
        if prompt.temperature:
            targets = torch.tensor(ids, device=logits.device)
            logits = truncate(logits / prompt.temperature, prompt.truncation, targets)
        logprobs = logits.log_softmax(-1)  # [T, V]
        likeliest = logprobs.topk(top)
        pairs = zip(likeliest.indices.tolist(), likeliest.values.tolist(), strict=True)
        return tuple(
            TokenScore(token, row[token].item(), tuple(zip(tokens, values, strict=True)))
            for token, row, (tokens, values) in zip(ids, logprobs, pairs, strict=True)
        )


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
