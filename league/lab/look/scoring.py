"""A snapshot's weights, loaded on demand: how they score a recorded turn's tokens, and how they reply."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any, NamedTuple

from arena.records import TokenTrace
from games.common.errors import UsageError
from league.population.players.engines import Engines
from league.population.storage.population import Snapshot
from league.population.storage.run_dir import Run

MOST_TOKENS = 2**14  # of a pass


class TokenScores(NamedTuple):
    """A reply's tokens as a snapshot scores them, in nats; of a token that was the only one allowed, 0 and None."""

    logprobs: list[float]
    entropies: list[float | None]


class SnapshotWeights:
    """The models of a run's snapshots, a few of them in memory; close it after use."""

    def __init__(self, path: Path) -> None:
        self._run, self._engines = Run(path), Engines()

    def close(self) -> None:
        """Forget all models."""
        self._engines.__exit__()

    @property
    def engines(self) -> Engines:
        """What players of this run are resolved with."""
        return self._engines

    def model(self, snapshot: Snapshot) -> Any:
        """Return a snapshot's language model. Raises UsageError for an engine that keeps its models to itself."""
        from arena.samplers.torch_lm import TorchLM  # torch is slow to import

        checked = self._run.population.verify(self._run.population.get(snapshot.id))
        engine = self._engines.of_run(self._run, checked)
        if not isinstance(engine, TorchLM):
            raise UsageError(f"The run's engine, {self._run.config.engine.kind}, cannot score tokens; torch can.")
        engine.register(checked.id, checked.path, like=self._engines.adapters(self._run, checked))
        return engine.model_of(checked.id)

    def score(self, snapshot: Snapshot, trace: TokenTrace) -> TokenScores:
        """Return the scores of a recorded reply under its own mask, temperature and truncation."""
        lm = self.model(snapshot)
        return _free(lm, trace) if trace.mask is None else _masked(lm, trace)

    def probabilities(self, snapshot: Snapshot, trace: TokenTrace) -> list[float]:
        """Return the probability of each legal reply to a recorded, masked prompt."""
        lm = self.model(snapshot)
        trie, nodes = _nodes(lm, trace)
        return [math.exp(math.fsum(nodes[node][branch] for node, branch in path)) for path in trie.paths]

    def replies(self, snapshot: Snapshot, trace: TokenTrace, number: int, most: int) -> list[str]:
        """Return some sampled replies to a recorded, free prompt, each of at most this many tokens."""
        from arena.lm.decoding.decode import generate
        from roles.truncation import Truncation

        lm = self.model(snapshot)
        sampled = generate(
            [lm] * number,
            [trace.prompt_ids] * number,
            [random.Random(f"{snapshot.id}/{place}") for place in range(number)],
            temperature=trace.temperature,
            max_tokens=most,
            max_batch_tokens=MOST_TOKENS,
            truncation=Truncation(*trace.truncation),  # type: ignore[arg-type]
        )
        return [lm.decode(ids) for ids, _ in sampled]


def _nodes(lm: Any, trace: TokenTrace) -> tuple[Any, list[list[float]]]:
    """Return the trie of a turn's legal replies, and the masked log-probs of each of its branching nodes."""
    import torch

    trie = lm.trie(trace.mask)
    if not trie.prefixes:
        return trie, []
    with torch.inference_mode():
        [chunk] = lm.plan_choice([trace.prompt_ids], [trie], MOST_TOKENS)
        scored = lm.choice_logprobs(chunk, [trie], trace.temperature)
    rows = scored.nodes.tolist()
    return trie, [row[: len(allowed)] for row, allowed in zip(rows, trie.branches, strict=True)]


def _masked(lm: Any, trace: TokenTrace) -> TokenScores:
    trie, nodes = _nodes(lm, trace)
    if trace.reply_ids not in trie.tokens:
        raise UsageError("The snapshot's tokenizer divides this reply differently, so its tokens cannot be scored.")
    logprobs, entropies = [0.0] * len(trace.reply_ids), list[float | None]([None] * len(trace.reply_ids))
    for node, branch in trie.paths[trie.tokens.index(trace.reply_ids)]:
        place, row = len(trie.prefixes[node]), nodes[node]
        logprobs[place] = row[branch]
        entropies[place] = -math.fsum(math.exp(value) * value for value in row if value > -math.inf)
    return TokenScores(logprobs, entropies)


def _free(lm: Any, trace: TokenTrace) -> TokenScores:
    import torch

    from arena.lm.logprobs import ScoreOptions
    from arena.lm.scoring import plan_passes
    from roles.truncation import Truncation

    options = ScoreOptions(trace.temperature, False, Truncation(*trace.truncation))  # type: ignore[arg-type]
    replies = [trace.reply_ids]
    with torch.inference_mode():
        [one] = plan_passes(lm, [trace.prompt_ids], replies, len(trace.prompt_ids) + len(trace.reply_ids) + MOST_TOKENS)
        scores = one.scores(lm, options)
    size = len(trace.reply_ids)
    return TokenScores(scores.logprobs[0, :size].tolist(), scores.entropy[0, :size].tolist())
