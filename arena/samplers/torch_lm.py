"""The engine that runs Hugging Face causal LMs in this process, several snapshots side by side.

A ``choice`` reply is drawn from the exact distribution over the legal replies, which is computed once for each
(player, prompt) and cached until ``refresh``; ``free`` replies are decoded token by token.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from math import exp
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch

from arena.errors import check_tabular
from arena.lm.chunks import Tokens
from arena.lm.decoding.decode import generate
from arena.lm.decoding.device_decoding import batches_of
from arena.lm.finite import check_logprobs
from arena.lm.language_model import LanguageModel
from arena.lm.lora import load_model
from arena.lm.tokenization import MAX_CACHED_PROMPTS
from arena.lm.tree_decoding import tree_probabilities
from arena.records import DrawnChoice, Refusal, Reply, ReplyRequest, TokenTrace
from arena.samplers.pass_cache import PassCache
from games.common.errors import unknown_name
from roles.chat_text import Message, as_chat
from roles.prompts import messages
from roles.role import ReplyForm, Role
from roles.trie import ReplyTrie, token_logprobs
from roles.truncation import Truncation

_FreeKey = tuple[str, float, Truncation, int]  # player, temperature, truncation, most tokens
MAX_BATCH_TOKENS = 8192  # padded tokens in one forward pass


class LoadsWeights(Protocol):
    """A model into which weights of the same shape can be loaded, or a base for adapters."""

    def with_weights(self, folder: Path) -> LanguageModel:
        """Return a model with the weights in a folder."""
        ...


class _Shared:
    """A role that stands for all equal ones, so that a key of a prompt need not hash all of it."""

    __slots__ = ("role",)

    def __init__(self, role: Role) -> None:
        self.role = role


class _PromptKey(NamedTuple):
    """All that a player's reply depends on, apart from its weights and random numbers."""

    player: str
    shared: _Shared
    observation: str
    legal: tuple[str, ...]
    refusals: tuple[Refusal, ...]
    form: str
    chat: tuple[tuple[str, str], ...]


class _PromptKeys:
    """Makes the keys of requests."""

    def __init__(self) -> None:
        self._by_id: dict[int, tuple[Role, _Shared]] = {}  # with the role itself: ids of objects are reused
        self._shared: dict[Role, _Shared] = {}

    def of(self, requests: Sequence[ReplyRequest]) -> list[_PromptKey]:
        """Return the requests' keys, equal for requests with equal roles."""
        by_id, made, keys = self._by_id, tuple.__new__, []
        for player, role, _, observation, legal, refusals, _, form, _, chat in requests:
            known = by_id.get(id(role))
            if known is None:
                known = by_id[id(role)] = role, self._shared.setdefault(role, _Shared(role))
            keys.append(made(_PromptKey, (player, known[1], observation, legal, refusals, form, chat)))
        return keys

    def __len__(self) -> int:
        return len(self._by_id)


def _chat(key: _PromptKey) -> list[Message]:
    return as_chat(key.chat) if key.chat else messages(key.shared.role, *key[2:-1])


class TorchLM:
    """A sampler for language models. Players are added as live models or registered as folders."""

    alone = False  # products round differently in batches of other sizes

    def __init__(
        self,
        *,
        device: str = "cpu",
        dtype: str = "float32",
        loaded: int = 8,
        max_batch_tokens: int = MAX_BATCH_TOKENS,
        separately: bool = False,
    ) -> None:
        """With ``separately`` each prompt that ``sample`` gets is computed by itself.

        In a stream, which prompts are asked for together depends on the time that matches take, and so would the last
        bits of log-probs.
        """
        self._device, self._dtype, self._separately = device, dtype, separately
        self._most_loaded, self._max_batch_tokens = loaded, max_batch_tokens
        self._live: dict[str, LanguageModel] = {}
        self._kept: set[str] = set()  # those of them whose weights do not change
        self._sources: dict[str, Callable[[], LanguageModel]] = {}
        self._loaded: dict[str, LanguageModel] = {}  # least recently used first
        self._choices: dict[_PromptKey, DrawnChoice] = {}
        self._by_themselves: dict[_PromptKey, DrawnChoice] = {}  # the same, each computed alone
        self._passes: dict[tuple[str, bool], PassCache] = {}  # by player, and whether of probes; while it is loaded
        self._keys = _PromptKeys()
        self._prompts: dict[tuple[Any, tuple[Any, ...]], Tokens] = {}  # by the tokenizer: ids of objects are reused
        self.changes = 0  # how often the live weights have
        self.mixes_adapters = device.startswith("cuda")  # in one batch of free replies
        self.tokens = 0  # prompt and reply tokens that the replies so far consist of

    def add(self, player: str, lm: LanguageModel) -> None:
        """Add a live model; its weights may change between ``refresh`` calls."""
        self._live[player] = lm
        self.changes += 1
        self._drop_passes(player)

    def keep(self, name: str, player: str, lm: LanguageModel) -> None:
        """Add a player with the present weights of a live one's model, which it keeps until ``drop``."""
        kept = lm.frozen_copy()
        kept.version = lm.version
        self._live[name] = kept
        self._kept.add(name)

    def drop(self, name: str) -> None:
        """Remove a player that ``keep`` added."""
        self._kept.discard(name)
        self._drop_passes(name)
        self._live.pop(name).release()

    def register(
        self,
        player: str,
        source: str | Path,
        check: Callable[[], object] | None = None,
        like: LoadsWeights | None = None,
    ) -> None:
        """Register a folder or hub id, loaded at the first request after ``check``, which may raise.

        With ``like``, which has the same tokenizer, only the folder's weights are read.
        """

        def load() -> LanguageModel:
            if check is not None:
                check()
            if like is not None:
                return like.with_weights(Path(source))
            return load_model(source, device=self._device, dtype=self._dtype)

        self._sources[player] = load

    def refresh(self) -> None:
        """Drop what was computed with the live weights, because they have changed.

        Distributions of all players are dropped, so that they come from the same passes as in a run that is resumed
        here; those passes of a frozen player that are the same again are not run again.
        """
        self.changes += 1
        self._choices.clear()
        self._by_themselves.clear()
        for player in self._live.keys() - self._kept:
            self._drop_passes(player)
        if len(self._prompts) > MAX_CACHED_PROMPTS or len(self._keys) > MAX_CACHED_PROMPTS:
            self._prompts.clear()
            self._keys = _PromptKeys()

    def sleep(self) -> None:
        """Free keys and values that are kept for the next replies; the learner trains these same models in memory."""
        for lm in (*self._live.values(), *self._loaded.values()):
            if lm.decodes_on_device:
                batches_of(lm).sleep()

    def close(self) -> None:
        """Free all loaded models."""
        while self._loaded:
            self._unload()
        self._choices.clear()
        self._by_themselves.clear()
        self._passes.clear()

    def sample(self, requests: Sequence[ReplyRequest]) -> list[Reply]:
        """Return one reply for each request, drawn from the request's generator alone."""
        replies: list[Reply | None] = [None] * len(requests)
        free: dict[_FreeKey, list[int]] = {}
        form = ReplyForm.CHOICE
        choices = [i for i, request in enumerate(requests) if request.role.reply is form]
        asked = [requests[i] for i in choices]
        for i, request, choice in zip(choices, asked, self.choices(asked), strict=True):
            replies[i] = choice.draw(request.rng)
        for i, request in enumerate(requests if len(asked) < len(requests) else ()):
            if request.role.reply is ReplyForm.FREE:
                role = request.role
                key = request.player, role.temperature, role.truncation, role.max_reply_tokens
                free.setdefault(key, []).append(i)
        for indices in self._together(free):
            for i, reply in zip(indices, self._decode([requests[i] for i in indices]), strict=True):
                replies[i] = reply
        answers = [reply for reply in replies if reply is not None]
        objects = {id(reply): reply for reply in answers}  # each of very few is drawn many times
        self.tokens += sum(_length(objects[one]) * times for one, times in Counter(map(id, answers)).items())
        return answers

    def choices(self, requests: Sequence[ReplyRequest]) -> list[DrawnChoice]:
        """See ``Draws``."""
        return self._choice_distributions(requests, alone=self._separately)

    def distributions(self, requests: Sequence[ReplyRequest]) -> list[tuple[float, ...]]:
        """Return the exact probabilities of each request's legal replies (``choice`` roles only)."""
        for request in requests:
            check_tabular(request.role)
        return [
            tuple(b - a for a, b in zip((0.0, *cuts), cuts, strict=False))
            for cuts in [choice.cumulated or () for choice in self._choice_distributions(requests)]
        ]

    def bulk_distributions(self, requests: Sequence[ReplyRequest]) -> list[list[float]]:
        """Return the same, up to rounding: each token of the tree of all prompts runs once, and nothing is cached."""
        rows: list[list[float]] = [[]] * len(requests)
        together: dict[tuple[str, float], list[int]] = {}
        for index, request in enumerate(requests):
            check_tabular(request.role)
            together.setdefault((request.player, request.role.temperature), []).append(index)
        for (player, temperature), indices in together.items():
            lm = self.model_of(player)
            own = [requests[i] for i in indices]
            if lm.shares_prefix:
                prompts = lm.encode_prompts([_chat(key) for key in self._keys.of(own)])
                found = tree_probabilities(lm, prompts, [lm.trie(request.legal) for request in own], temperature)
            else:
                found = [list(row) for row in self.distributions(own)]
            for index, row in zip(indices, found, strict=True):
                check_logprobs(player, sum(row), live=player in self._live)
                rows[index] = row
        return rows

    def beliefs(self, requests: Sequence[ReplyRequest]) -> list[tuple[float, ...] | None]:
        """Return the exact probabilities of each request's answers.

        Their passes have a cache of their own: what is cached decides how a later pass rounds.
        """
        distributions = self._choice_distributions(requests, probes=True)
        return [
            tuple([exp(sum(reply.trace.logprobs)) for reply in one.replies if reply.trace]) for one in distributions
        ]

    def _choice_distributions(
        self, requests: Sequence[ReplyRequest], *, probes: bool = False, alone: bool = False
    ) -> list[DrawnChoice]:
        """Return each request's distribution; those that are not cached are computed in batches, or each ``alone``."""
        keys, known = self._keys.of(requests), self._by_themselves if alone else self._choices
        missing: dict[tuple[str, float], list[_PromptKey]] = {}
        for key in dict.fromkeys(keys):
            if key not in known:
                missing.setdefault((key.player, key.shared.role.temperature), []).append(key)
        for (player, temperature), new_keys in missing.items():
            for together in [[key] for key in new_keys] if alone else [new_keys]:
                known.update(self._compute(player, temperature, together, probes))
        return list(map(known.__getitem__, keys))

    @torch.inference_mode()
    def _compute(
        self, player: str, temperature: float, keys: list[_PromptKey], probes: bool
    ) -> dict[_PromptKey, DrawnChoice]:
        """Return the distributions of a player's prompts."""
        lm = self.model_of(player)
        passes = self._passes.setdefault((player, probes), PassCache(lm, live=player in self._live.keys() - self._kept))
        prompts = self._prompts_of(lm, keys)
        tries = [lm.trie(key.legal) for key in keys]
        branching = [i for i, trie in enumerate(tries) if trie.prefixes]
        nodes: dict[int, list[list[float]]] = {i: [] for i in range(len(keys))}
        branching_tries = [tries[i] for i in branching]
        for chunk in lm.plan_choice([prompts[i] for i in branching], branching_tries, self._max_batch_tokens):
            values, first = passes.nodes(chunk, branching_tries, temperature), 0
            for item in chunk.items:
                count = len(branching_tries[item].prefixes)
                nodes[branching[item]] = values[first : first + count]
                first += count
        choices = {}
        for i, key in enumerate(keys):
            choice = _choice_distribution(key, prompts[i], tries[i], nodes[i], lm.version)
            check_logprobs(player, sum((choice.cumulated or ())[-1:]), live=player in self._live)
            choices[key] = choice
        return choices

    def _together(self, free: Mapping[_FreeKey, list[int]]) -> list[list[int]]:
        """Return the requests that are decoded in one call: those of adapters on one base, where it mixes them."""
        joined: dict[object, list[tuple[str, list[int]]]] = {}
        for (player, *sampling), indices in free.items():
            lm = self.model_of(player) if self.mixes_adapters else None
            base = lm.adapters if lm is not None and lm.decodes_on_device else None
            joined.setdefault((base or player, *sampling), []).append((player, indices))
        return [
            [i for _, indices in players[first : first + self._most_loaded] for i in indices]
            for players in joined.values()
            for first in range(0, len(players), self._most_loaded)  # no more of them are loaded at once
        ]

    def _decode(self, requests: Sequence[ReplyRequest]) -> list[Reply]:
        """Decode free replies at one temperature and truncation, of one player or of adapters on one base."""
        role, models = requests[0].role, {r.player: self.model_of(r.player) for r in requests}
        prompts = self._prompts_of(models[requests[0].player], self._keys.of(requests))
        sampled = generate(
            [models[r.player] for r in requests],
            prompts,
            [r.rng for r in requests],
            temperature=role.temperature,
            max_tokens=role.max_reply_tokens,
            max_batch_tokens=self._max_batch_tokens,
            truncation=role.truncation,
        )
        texts: dict[Tokens, str] = {}
        replies = []
        for request, prompt, (ids, logprobs) in zip(requests, prompts, sampled, strict=True):
            player, lm = request.player, models[request.player]
            check_logprobs(player, sum(logprobs), live=player in self._live)
            if ids not in texts:
                texts[ids] = lm.decode(ids)
            trace = TokenTrace(
                player, prompt, ids, logprobs, None, role.temperature, tuple(role.truncation), lm.version
            )
            replies.append(Reply(texts[ids], trace))
        for player, lm in models.items():
            if player not in self._live and lm.adapters is None:
                lm.batches = None  # those of many snapshots would not fit side by side
        return replies

    def _prompts_of(self, lm: LanguageModel, keys: Sequence[_PromptKey]) -> list[Tokens]:
        """Return the prompts' tokens from a cache that players of one tokenizer share."""
        known, tokenizer = self._prompts, lm.tokenizer
        shared = [(tokenizer, key[1:]) for key in keys]  # all but the player
        missing = {one: key for one, key in zip(shared, keys, strict=True) if one not in known}
        known.update(zip(missing, lm.encode_prompts([_chat(key) for key in missing.values()]), strict=True))
        return [known[one] for one in shared]

    def _unload(self) -> None:
        """Free the least recently used frozen model, and what its passes computed."""
        player = next(iter(self._loaded))
        self._drop_passes(player)
        self._loaded.pop(player).release()

    def _drop_passes(self, player: str) -> None:
        for probes in (False, True):
            self._passes.pop((player, probes), None)

    def model_of(self, player: str) -> LanguageModel:
        """Return a player's model; if it must be loaded first, drop the least recently used one."""
        if player in self._live:
            return self._live[player]
        if player not in self._loaded:
            if player not in self._sources:
                raise unknown_name("language-model player", player, [*self._live, *self._sources])
            while len(self._loaded) >= self._most_loaded:
                self._unload()
            with torch.inference_mode(False):  # or PEFT could not touch them when it adds another adapter
                self._loaded[player] = self._sources[player]()
        self._loaded[player] = lm = self._loaded.pop(player)
        return lm


def _choice_distribution(
    key: _PromptKey, prompt: Tokens, trie: ReplyTrie, nodes: list[list[float]], version: int | None
) -> DrawnChoice:
    """Return the distribution of one prompt from the masked log-probs of its trie's nodes."""
    by_token = [token_logprobs(trie, nodes, reply) for reply in range(len(trie.replies))]
    replies = [
        Reply(
            text, TokenTrace(key.player, prompt, ids, logprobs, key.legal, key.shared.role.temperature, version=version)
        )
        for text, ids, logprobs in zip(trie.replies, trie.tokens, by_token, strict=True)
    ]
    return DrawnChoice(replies, list(accumulate(exp(sum(logprobs)) for logprobs in by_token)))


def _length(reply: Reply) -> int:
    return len(reply.trace.prompt_ids) + len(reply.trace.reply_ids) if reply.trace else 0
