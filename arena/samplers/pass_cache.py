"""A cache of forward passes with one model's present weights, so that an equal pass is not run again.

Products round differently in batches of other sizes. So nothing is kept by prompt: keys and values are kept of a
prefix, which runs by itself, and results of a whole chunk, which another run, or a resumed one, would compute from
exactly the same inputs. What comes from here has the bits of a pass that is run again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from arena.lm.chunks import Chunk, Tokens
from arena.lm.language_model import LanguageModel
from arena.lm.logprobs import choice_logprobs, tempered
from roles.trie import ReplyTrie

MOST_PREFIXES = 16  # of one model; the keys and values of a prefix of 200 tokens take some 10 MB in a model of 135 M
MOST_ANSWERS = 4096  # nodes of one model's tries, whose log-probs are kept

Nodes = list[list[float]]


class PassCache:
    """The passes of one model. To be dropped when its weights change or are freed.

    ``live``: it is dropped before each iteration, where a run may be resumed. So a prefix may run in one pass with what
    follows it first: it then rounds otherwise than by itself, but the same in every run.
    """

    def __init__(self, lm: LanguageModel, *, live: bool = False) -> None:
        self._lm, self._live = lm, live
        self._prefixes: dict[Tokens, dict[str, Any]] = {}  # least recently used first
        self._nodes: dict[object, Nodes] = {}
        self._kept = 0

    def nodes(self, chunk: Chunk, tries: Sequence[ReplyTrie], temperature: float) -> Nodes:
        """Return the masked log-probs of the nodes of a chunk of ``plan_choice``, in order; call it without gradients.

        ``tries`` belong to all planned prompts.
        """
        branches = tuple(tries[item].branches for item in chunk.items)
        key = (temperature, chunk.prefix, chunk.suffixes, branches)
        if key not in self._nodes:
            logits = tempered(self._logits(chunk), temperature)
            nodes: Nodes = choice_logprobs(logits, [tries[item] for item in chunk.items]).nodes.tolist()
            if self._kept + len(nodes) > MOST_ANSWERS:
                self._nodes.clear()
                self._kept = 0
            self._nodes[key] = nodes
            self._kept += len(nodes)
        return self._nodes[key]

    def _logits(self, chunk: Chunk) -> Tensor:
        """Run a chunk, behind its prefix if that has run before; return the logits at its nodes.  # [N, V]"""
        prefix = chunk.prefix
        inputs = self._prefixes.pop(prefix, None)
        if prefix and inputs is None and self._live and self._lm.gains_by_packing:
            logits, inputs = self._lm.run_with_prefix(chunk)
        else:
            inputs = inputs or self._lm.prefix_inputs(prefix)
            logits = self._lm.run(chunk, 1, prefix_inputs=inputs).logits[:, 0]
        if len(self._prefixes) >= MOST_PREFIXES:
            del self._prefixes[next(iter(self._prefixes))]
        if prefix:
            self._prefixes[prefix] = inputs
        return logits
