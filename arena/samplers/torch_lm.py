"""The engine that runs Hugging Face causal LMs in this process, several snapshots side by side.

A ``choice`` reply is drawn from the exact distribution over the legal replies, which is computed once
for each (player, prompt) and kept until ``forget``; ``free`` replies are decoded token by token.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from math import exp
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch

from arena.adapters import load_model
from arena.chunks import Tokens
from arena.decoding import generate
from arena.errors import check_table
from arena.lm import LanguageModel
from arena.records import Refusal, Reply, ReplyRequest, TokenTrace
from arena.wording import KEPT_PROMPTS
from games.errors import unknown_name
from roles.prompts import messages
from roles.role import ReplyForm, Role
from roles.trie import ReplyTrie, token_logprobs

BUDGET = 8192  # padded tokens in one forward pass


class Like(Protocol):
    """What other weights can be loaded into: a model of the same shape, or the base of an adapter."""

    def with_weights(self, folder: Path) -> LanguageModel:
        """Return a model with the weights in a folder."""
        ...


class _Asked(NamedTuple):
    """What a player's reply depends on. Equal for every match that stands at the same point."""

    player: str
    role: Role
    observation: str
    legal: tuple[str, ...]
    refusals: tuple[Refusal, ...]


class _Menu(NamedTuple):
    """All legal replies of one prompt with their probabilities, added up for drawing."""

    cumulated: list[float]  # [A]
    replies: list[Reply]  # [A]

    def draw(self, rng: random.Random) -> Reply:
        """Draw one reply, one number of ``rng`` for each."""
        point = rng.random() * self.cumulated[-1]
        return self.replies[min(bisect_right(self.cumulated, point), len(self.replies) - 1)]


class TorchLM:
    """A sampler for language models. Players are added as live models or registered as folders."""

    def __init__(self, *, device: str = "cpu", dtype: str = "float32", loaded: int = 8, budget: int = BUDGET) -> None:
        self._device, self._dtype = device, dtype
        self._most_loaded, self._budget = loaded, budget
        self._live: dict[str, LanguageModel] = {}
        self._sources: dict[str, Callable[[], LanguageModel]] = {}
        self._loaded: dict[str, LanguageModel] = {}  # least recently used first
        self._menus: dict[_Asked, _Menu] = {}
        self._prompts: dict[tuple[Any, _Asked], Tokens] = {}  # by tokenizer itself: the id of a dropped one may return
        self.tokens = 0  # prompt and reply tokens that the replies so far consist of

    def add(self, player: str, lm: LanguageModel) -> None:
        """Seat a model that is already in memory; its weights may change between ``forget`` calls."""
        self._live[player] = lm

    def register(
        self,
        player: str,
        source: str | Path,
        check: Callable[[], object] | None = None,
        like: Like | None = None,
    ) -> None:
        """Name a folder or hub id; it is loaded when first asked, after ``check`` (which may raise).

        With ``like``, which has the same tokenizer, only the folder's weights are read.
        """

        def load() -> LanguageModel:
            if check is not None:
                check()
            if like is not None:
                return like.with_weights(Path(source))
            return load_model(source, device=self._device, dtype=self._dtype)

        self._sources[player] = load

    def forget(self) -> None:
        """Drop what is kept about prompts: the live weights have changed."""
        self._menus.clear()
        if len(self._prompts) > KEPT_PROMPTS:
            self._prompts.clear()

    def rest(self) -> None:
        """Do nothing: the models that it plays with are those that learn."""

    def close(self) -> None:
        """Free what was loaded."""
        while self._loaded:
            self._loaded.popitem()[1].release()
        self._menus.clear()

    def sample(self, requests: Sequence[ReplyRequest]) -> list[Reply]:
        """Return one reply for each request. Each draws from its own generator alone."""
        replies: list[Reply | None] = [None] * len(requests)
        free: dict[tuple[str, float, int], list[int]] = {}
        choices = [i for i, asked in enumerate(requests) if asked.role.reply is ReplyForm.CHOICE]
        for i, menu in zip(choices, self._menus_of([requests[i] for i in choices]), strict=True):
            reply = replies[i] = menu.draw(requests[i].rng)
            self.tokens += _length(reply)
        for i, asked in enumerate(requests):
            if asked.role.reply is ReplyForm.FREE:
                key = asked.player, asked.role.temperature, asked.role.max_reply_tokens
                free.setdefault(key, []).append(i)
        for (player, _, _), places in free.items():
            for i, reply in zip(places, self._decode(player, [requests[i] for i in places]), strict=True):
                replies[i] = reply
                self.tokens += _length(reply)
        return [reply for reply in replies if reply is not None]

    def distributions(self, requests: Sequence[ReplyRequest]) -> list[tuple[float, ...]]:
        """Return the exact probabilities of each request's legal replies (``choice`` roles only)."""
        for asked in requests:
            check_table(asked.role)
        return [
            tuple(b - a for a, b in zip((0.0, *menu.cumulated), menu.cumulated, strict=False))
            for menu in self._menus_of(requests)
        ]

    def _menus_of(self, requests: Sequence[ReplyRequest]) -> list[_Menu]:
        """Return each request's menu; those not known yet are computed together."""
        asked = [_Asked(r.player, r.role, r.observation, r.legal, r.refusals) for r in requests]
        menus = [self._menus.get(one) for one in asked]
        unknown: dict[tuple[str, float], dict[_Asked, None]] = {}
        for one, menu in zip(asked, menus, strict=True):
            if menu is None:
                unknown.setdefault((one.player, one.role.temperature), {})[one] = None
        for (player, temperature), news in unknown.items():
            self._compute(player, temperature, list(news))
        return [menu or self._menus[one] for one, menu in zip(asked, menus, strict=True)]

    @torch.inference_mode()
    def _compute(self, player: str, temperature: float, asked: list[_Asked]) -> None:
        """Compute the menus of prompts that this player has not seen."""
        lm = self.model_of(player)
        prompts = [self._prompt(lm, one) for one in asked]
        tries = [lm.trie(one.legal) for one in asked]
        open_ones = [i for i, trie in enumerate(tries) if trie.prefixes]
        nodes: dict[int, list[list[float]]] = {i: [] for i in range(len(asked))}
        open_tries = [tries[i] for i in open_ones]
        for chunk in lm.plan_choice([prompts[i] for i in open_ones], open_tries, self._budget):
            values, first = lm.choice_logprobs(chunk, open_tries, temperature).nodes.tolist(), 0
            for item in chunk.items:
                count = len(open_tries[item].prefixes)
                nodes[open_ones[item]] = values[first : first + count]
                first += count
        for i, one in enumerate(asked):
            self._menus[one] = _menu(one, prompts[i], tries[i], nodes[i])

    def _decode(self, player: str, requests: Sequence[ReplyRequest]) -> list[Reply]:
        """Decode free replies of one player at one temperature."""
        lm, role = self.model_of(player), requests[0].role
        asked = [_Asked(r.player, r.role, r.observation, r.legal, r.refusals) for r in requests]
        prompts = [self._prompt(lm, one) for one in asked]
        sampled = generate(
            lm,
            prompts,
            [r.rng for r in requests],
            temperature=role.temperature,
            max_tokens=role.max_reply_tokens,
            budget=self._budget,
        )
        texts: dict[Tokens, str] = {}
        replies = []
        for prompt, (ids, logprobs) in zip(prompts, sampled, strict=True):
            if ids not in texts:
                texts[ids] = lm.decode(ids)
            trace = TokenTrace(player, prompt, ids, logprobs, None, role.temperature)
            replies.append(Reply(texts[ids], trace))
        return replies

    def _prompt(self, lm: LanguageModel, asked: _Asked) -> Tokens:
        """Return the prompt's tokens; players that share a tokenizer share the work."""
        key = lm.tokenizer, asked._replace(player="")
        if key not in self._prompts:
            self._prompts[key] = lm.encode_prompt(messages(asked.role, asked.observation, asked.legal, asked.refusals))
        return self._prompts[key]

    def model_of(self, player: str) -> LanguageModel:
        """Return a player's model, loading it if it must be and dropping the one not used longest."""
        if player in self._live:
            return self._live[player]
        if player not in self._loaded:
            if player not in self._sources:
                raise unknown_name("language-model player", player, [*self._live, *self._sources])
            while len(self._loaded) >= self._most_loaded:
                self._loaded.pop(next(iter(self._loaded))).release()
            with torch.inference_mode(False):  # or adapters that are added later could not touch them
                self._loaded[player] = self._sources[player]()
        self._loaded[player] = lm = self._loaded.pop(player)
        return lm


def _menu(asked: _Asked, prompt: Tokens, trie: ReplyTrie, nodes: list[list[float]]) -> _Menu:
    """Return the menu of one prompt from the masked log-probs of its trie's nodes."""
    by_token = [token_logprobs(trie, nodes, reply) for reply in range(len(trie.replies))]
    replies = [
        Reply(text, TokenTrace(asked.player, prompt, ids, logprobs, asked.legal, asked.role.temperature))
        for text, ids, logprobs in zip(trie.replies, trie.tokens, by_token, strict=True)
    ]
    return _Menu(list(accumulate(exp(sum(logprobs)) for logprobs in by_token)), replies)


def _length(reply: Reply) -> int:
    return len(reply.trace.prompt_ids) + len(reply.trace.reply_ids) if reply.trace else 0
