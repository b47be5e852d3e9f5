"""A table that learns by the update of `objective`, from sampled matches: one logit for each action.

For an information state with n turns in the batch the update's loss has its minimum where

    (kappa + m + alpha) log pi' = kappa log pi + m log magnet + A,    A(a) = sum of the advantages of a / (n pi(a))

with kappa = `kl_old`, m = `magnet` and alpha = `entropy`. A model takes a few steps of an optimiser, on a gradient that
weighs a state by its turns, so where there are few it gets less far: kappa is enlarged by ``DAMPING`` / n. What a table
lacks is what makes a model: that it answers alike in states that are told alike.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from games.registry import make_game
from league.theory.exact.sequence_form import HISTORY_LIMIT, sequence_form
from learners.trajectories import return_scale

DAMPING = 5.0  # Leduc poker ends as exploitable as the pocket model does (0.50, 0.53) with 5 to 10
Floats = NDArray[np.float64]


class Batch(NamedTuple):
    """Sampled matches, every passed sequence of each: entries E."""

    terminal: NDArray[np.int64]  # [E]
    sequence: NDArray[np.int64]  # [E]
    times: Floats  # the entry's match was drawn  # [E]


class Table:
    """A game's sequences Q, its information states I and its terminals Z (``league.theory.exact.sequence_form``)."""

    def __init__(self, game: str, limit: int = HISTORY_LIMIT) -> None:
        self.form = form = sequence_form(game, limit)
        self.seats, self.size = form.seats, form.sequences
        self.parent = np.full(self.size, -1)
        self.state = np.full(self.size, -1)
        self.seat = np.zeros(self.size, np.int64)
        self.seat[: self.seats] = range(self.seats)
        depth = np.zeros(self.size, np.int64)
        for index, (key, parent, first, legal) in enumerate(
            zip(form.keys, form.parent, form.first, form.legal, strict=True)
        ):
            own = slice(first, first + len(legal))
            self.parent[own], self.state[own], self.seat[own], depth[own] = parent, index, key[0], depth[parent] + 1
        self.actions = np.array([len(legal) for legal in form.legal])  # [I]
        self.levels = [np.where(depth == level)[0] for level in range(1, depth.max() + 1)]
        self.returns = form.returns / return_scale(make_game(game).spec)  # [Z, seats]
        self._entries()

    def _entries(self) -> None:
        """List every sequence on the way to each terminal, terminals in order."""
        passed = self.form.last.ravel()
        terminal = np.repeat(np.arange(len(self.returns)), self.seats)
        terminals, sequences = [], []
        while (real := self.state[passed] >= 0).any():
            passed, terminal = passed[real], terminal[real]
            terminals.append(terminal)
            sequences.append(passed)
            passed = self.parent[passed]
        order = np.argsort(np.concatenate(terminals), kind="stable")
        self._terminal, self._sequence = np.concatenate(terminals)[order], np.concatenate(sequences)[order]
        self._start = np.searchsorted(self._terminal, np.arange(len(self.returns) + 1))

    def normalised(self, logits: Floats) -> Floats:
        """Return the log-probs of logits [Q]; 0 for empty sequences."""
        state, own = self.state[self.seats :], logits[self.seats :]
        most = np.full(len(self.actions), -np.inf)
        np.maximum.at(most, state, own)
        shifted = own - most[state]
        sums = np.bincount(state, np.exp(shifted), len(self.actions))
        return np.concatenate([np.zeros(self.seats), shifted - np.log(sums)[state]])

    def summed(self, by_sequence: Floats) -> Floats:
        """Return at each sequence the sum over it and those of its seat before it [Q]: of log-probs, the log plan."""
        sums = np.zeros(self.size)
        for level in self.levels:
            sums[level] = sums[self.parent[level]] + by_sequence[level]
        return sums

    def reach(self, logprobs: Floats) -> Floats:
        """Return the probability of each terminal [Z]."""
        return np.asarray(self.form.chance * np.exp(self.summed(logprobs)[self.form.last].sum(axis=1)))

    def all_matches(self, logprobs: Floats, matches: int) -> Batch:
        """Return every match as often as it is to be expected: an update without noise."""
        return Batch(self._terminal, self._sequence, matches * self.reach(logprobs)[self._terminal])

    def sampled(self, logprobs: Floats, matches: int, rng: np.random.Generator) -> Batch:
        """Return matches that are played by a policy."""
        drawn = rng.multinomial(matches, (reach := self.reach(logprobs)) / reach.sum())
        entries = np.concatenate([np.arange(self._start[z], self._start[z + 1]) for z in np.flatnonzero(drawn)])
        terminal = self._terminal[entries]
        return Batch(terminal, self._sequence[entries], drawn[terminal].astype(float))

    def exploitability(self, logprobs: Floats) -> float:
        """Return what a best response gains, averaged over seats, in the game's units."""
        shares = np.exp(logprobs).tolist()
        behaviour = [
            shares[first : first + len(legal)] for first, legal in zip(self.form.first, self.form.legal, strict=True)
        ]
        gains = np.subtract(self.form.best_responses(behaviour), self.form.values(behaviour))
        return float(gains.mean())
