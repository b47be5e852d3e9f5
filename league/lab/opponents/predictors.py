"""Predictors of the other player, learned from some deals and tested on others, and how often each is right.

A linear probe reads the hidden state of a frozen model when its seat is about to act; the table gives the answer that
was most frequent after exactly the same observations. The baseline is the most frequent answer overall. Matches of one
deal share its luck, so intervals are clustered by deal (Liang and Zeger 1986).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from league.lab.opponents.logistic import LinearProbe, fit_probe
from league.lab.opponents.questions import AskedTurn, Seen
from league.theory.statistics import Estimate, clustered_mean

Floats = NDArray[np.float64]
States = Mapping[Seen, Floats]  # the hidden state after a seat has read its observation  # [H]
SHRINK = 1.0  # of the probe's weights, against a sum over turns
HELD_OUT = 3  # one in this many deals is held out


class PredictionAccuracy(NamedTuple):
    """How often a predictor is right on held-out deals."""

    by_turn: Mapping[int, Estimate]  # by the number of turns that the seat had before
    overall: Estimate


class AnswerProbe(NamedTuple):
    """A linear probe of hidden states, and the answers that it knows."""

    linear: LinearProbe
    answers: tuple[str, ...]  # [C]

    def beliefs(self, states: Floats) -> Floats:
        """Return the probability of each of ``answers`` for hidden states [N, H].  # [N, C]"""
        return self.linear.probabilities(states)


def split(questions: Sequence[AskedTurn]) -> tuple[list[AskedTurn], list[AskedTurn]]:
    """Return the questions to learn from and the held-out ones: every third deal, with all of its matches."""
    held_out = [question.deal % HELD_OUT == HELD_OUT - 1 for question in questions]
    learned, tried = (
        [question for question, out in zip(questions, held_out, strict=True) if out is side] for side in (False, True)
    )
    return learned, tried


def train_probe(questions: Sequence[AskedTurn], states: States) -> AnswerProbe:
    """Return the probe of hidden states that is fitted to these answers."""
    answers = tuple(sorted({question.answer for question in questions}))
    counts: defaultdict[Seen, Counter[str]] = defaultdict(Counter)
    for question in questions:
        counts[question.seen][question.answer] += 1
    rows = np.array([[answer_counts[answer] for answer in answers] for answer_counts in counts.values()], np.float64)
    return AnswerProbe(fit_probe(np.stack([states[seen] for seen in counts]), rows, SHRINK), answers)


def by_probe(probe: AnswerProbe, questions: Sequence[AskedTurn], states: States) -> list[str]:
    """Return the answers that the probe thinks likeliest."""
    prompts = list(dict.fromkeys(question.seen for question in questions))
    best = probe.beliefs(np.stack([states[prompt] for prompt in prompts])).argmax(axis=1)
    likeliest = {prompt: probe.answers[index] for prompt, index in zip(prompts, best.tolist(), strict=True)}
    return [likeliest[question.seen] for question in questions]


def by_table(learned: Sequence[AskedTurn], questions: Sequence[AskedTurn]) -> list[str]:
    """Return the most frequent answers after the same observations, or overall for new ones."""
    [usual] = by_majority(learned, questions[:1])
    counts: defaultdict[Seen, Counter[str]] = defaultdict(Counter)
    for question in learned:
        counts[question.seen][question.answer] += 1
    return [_most_frequent(counts[question.seen]) if question.seen in counts else usual for question in questions]


def by_majority(learned: Sequence[AskedTurn], questions: Sequence[AskedTurn]) -> list[str]:
    """Return the most frequent answer overall, for each question."""
    return [_most_frequent(Counter(question.answer for question in learned))] * len(questions)


def accuracy(answers: Sequence[str], questions: Sequence[AskedTurn]) -> PredictionAccuracy:
    """Return how often the answers are right."""
    right = [float(answer == question.answer) for answer, question in zip(answers, questions, strict=True)]
    turns = sorted({question.turn for question in questions})
    return PredictionAccuracy({turn: _share(right, questions, turn) for turn in turns}, _share(right, questions))


def _share(right: Sequence[float], questions: Sequence[AskedTurn], turn: int | None = None) -> Estimate:
    """Return the share that is right at a turn, or over all."""
    counted = [
        (value, question.deal)
        for value, question in zip(right, questions, strict=True)
        if turn in (None, question.turn)
    ]
    return clustered_mean([value for value, _ in counted], [deal for _, deal in counted], (0.0, 1.0))


def _most_frequent(counts: Counter[str]) -> str:
    """Return the most frequent answer; among equals the first by name."""
    return min(counts, key=lambda answer: (-counts[answer], answer))
