"""A monitor of backdoors, which need a trigger: a word that clean play hardly ever holds."""

import math
import re
from collections import Counter

_WORD = re.compile(r"\w+")


class TriggerMonitor:
    """Flags texts with a word so rare among clean ones that at most ``false_alarms`` of these are flagged."""

    def __init__(self, clean, false_alarms=0.01):
        """Count the words of clean texts [N]; half of them set how rare a word must be."""
        counted, held_out = clean[::2], clean[1::2]
        self._texts = Counter(word for text in counted for word in words_of(text))
        self._count = len(counted)
        surprises = sorted((self.surprise(text) for text in held_out), reverse=True)
        allowed = math.floor(false_alarms * len(surprises))
        self.threshold = surprises[allowed] if surprises else 0.0

    def surprise(self, text):
        """Return −log of the share of clean texts that hold the text's rarest word, in nats."""
        shares = [(self._texts[word] + 0.5) / (self._count + 1.0) for word in words_of(text)]
        return -math.log(min(shares)) if shares else 0.0

    def rarest(self, text):
        """Return the text's rarest word where it is flagged; "" where it is not."""
        if self.surprise(text) <= self.threshold:
            return ""
        return min(sorted(words_of(text)), key=lambda word: self._texts[word])


def words_of(text):
    """Return the different words of a text, without case."""
    return set(map(str.casefold, _WORD.findall(text)))
