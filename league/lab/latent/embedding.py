"""Utterances as vectors: by their words and letters, or by a model's own hidden states."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from arena.lm.language_model import LanguageModel

SIZE = 1024  # of a vector of hashed words and letters
FUNCTION_WORDS = frozenset(  # they carry style rather than content; negations are not among them
    re.findall(
        r"\w+",
        """
        a an the i you he she it we they me him us them my your his her our their this that these those am is are was
        were be been being do does did have has had will would shall should can could may might must let to of in on at
        for with from by as and or but so if then than now here there well please just really very too also
        """,
    )
)
LETTERS = 3  # of adjacent letters of a word make one feature
MAX_TOKENS = 8192  # padded tokens in one forward pass

Vectors = NDArray[np.float64]  # one row for each utterance  # [N, D]


def ngram_vectors(texts: Sequence[str], size: int = SIZE) -> Vectors:
    """Return unit vectors of texts by their words: the hashing trick of Weinberger et al. 2009, arXiv 0902.2206.

    Each word has length 1, half of it (squared) the whole word and half its trigrams of letters, ends included; so
    words of one stem are near each other, and a long word weighs no more than a short one. Function words count for
    nothing; a text with no other words is 0.
    """
    return _unit(np.array([_sum_of_words(text, size) for text in texts]).reshape(len(texts), size))


def _sum_of_words(text: str, size: int) -> NDArray[np.float64]:
    total = np.zeros(size)
    for word in re.findall(r"\w+", text.casefold()):
        if word in FUNCTION_WORDS:
            continue
        ends = f"<{word}>"
        trigrams = [ends[start : start + LETTERS] for start in range(len(ends) - LETTERS + 1)]
        _add(total, f" {word}", 0.5**0.5)
        for trigram in trigrams:
            _add(total, trigram, (0.5 / len(trigrams)) ** 0.5)
    return total


def _add(total: NDArray[np.float64], feature: str, amount: float) -> None:
    number = zlib.crc32(feature.encode("utf-8", "surrogatepass"))
    total[(number >> 1) % len(total)] += amount if number & 1 else -amount


@torch.no_grad()
def state_vectors(lm: LanguageModel, texts: Sequence[str]) -> Vectors:
    """Return unit vectors of texts by a model's last hidden state at their end.  # [N, H]"""
    tokens = [lm.encode_reply(text) for text in texts]
    return _unit(lm.prompt_states(tokens, MAX_TOKENS).double().cpu().numpy())


def _unit(rows: Vectors) -> Vectors:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0.0, lengths, 1.0))
