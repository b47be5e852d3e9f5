"""How exploitable a policy is that is known from sampled replies only, with intervals that hold.

At every information state i the policy π_i is estimated by the shares π̂_i of n_i replies, independently of other
states. A realisation plan is a product of such shares along a path, so the value of any *fixed* response b,

    g_b(π) = u_s(b, π_-s) − u_s(π),      e_s(π) = max_b g_b(π),

is estimated without bias by g_b(π̂). The maximum is not: E max_b g_b(π̂) ≥ max_b g_b(π), since a best response to π̂
answers its noise too. Near an equilibrium all of e_s(π̂) is such noise, and a percentile bootstrap of it, which draws
noise around noise, misses nearly always. So the two ends are estimated apart, each missing in at most 2.5 %:

* **low**: the replies are cut into folds. A response learned without a fold is a fixed one for that fold, so
  its gain there is an unbiased estimate of something that is at most e_s(π) (sample splitting). The mean over folds,
  less 1.96 standard errors; never below 0, as no best response loses.
* **high**: e_s(π̂) ≥ g_b*(π̂) for the true best response b*, whose gain is unbiased: so e_s(π̂) plus 1.96 standard
  errors of a fixed response's gain is above e_s(π) often enough, without any correction of the bias.

The interval is therefore too wide rather than too narrow: by the bias itself, which shrinks with more replies.
Standard errors are a bootstrap's over states: each draws its replies again from (count + ½) / (n + actions / 2), so
that a state whose replies all agree is not taken for certain (Jeffreys' prior).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from league.theory.exact.exploitability import PolicyTable, exact_form
from league.theory.exact.sequence_form import SequenceForm
from league.theory.exact.states import Key
from league.theory.statistics import Z_95, Estimate

Floats = NDArray[np.float64]
Counts = Mapping[Key, tuple[int, ...]]  # replies by action, ascending ids; a state that is missing is known exactly

DRAWS = 200  # of the bootstrap
FOLDS = 4  # a response learned from three quarters of the replies is judged by the last quarter


class SampledExploitability(NamedTuple):
    """A best response's gain, averaged over seats and by seat, in the game's units a match."""

    mean: Estimate
    by_seat: tuple[Estimate, ...]  # [S]


def sampled_exploitability(
    table: PolicyTable, counts: Counts, seed: int = 0, slack: float = 0.0
) -> SampledExploitability | None:
    """Return the exploitability of a table that ``counts`` of replies estimate, with its intervals.

    ``slack`` widens both ends: by what is not known beside sampling. None for a game of boards, which has no plans.
    """
    form = exact_form(table.game)
    if not isinstance(form, SequenceForm):
        return None
    rng = np.random.default_rng(seed)
    known = _Replies(form, table, counts)
    folds = known.folds(rng)
    whole = _responses(form, known.rows)
    responses = [whole, *(_responses(form, rest.rows) for rest, _ in folds)]
    drawn = known.plans(rng)
    errors = np.max([_spread(_gains(form, drawn, response)) for response in responses], axis=0)  # [S + 1]
    estimates = _with_mean(_gains(form, _plans(form, known.rows), whole))[:, 0]  # [S + 1]
    low = np.zeros(form.seats + 1)
    if folds:
        judged = [
            _with_mean(_gains(form, _plans(form, fold.rows), response))[:, 0]
            for (_, fold), response in zip(folds, responses[1:], strict=True)
        ]
        spreads = [
            _spread(_gains(form, fold.plans(rng), response))
            for (_, fold), response in zip(folds, responses[1:], strict=True)
        ]
        error = np.maximum(np.sqrt(np.square(spreads).sum(axis=0)) / len(folds), errors)  # folds share replies
        low = np.minimum(np.mean(judged, axis=0) - Z_95 * error, estimates)
    high = estimates + Z_95 * errors + slack
    ends = [
        Estimate(max(float(e), 0.0), max(float(lo) - slack, 0.0), float(hi))
        for e, lo, hi in zip(estimates, low, high, strict=True)
    ]
    return SampledExploitability(ends[-1], tuple(ends[:-1]))


def resampled_tables(table: PolicyTable, counts: Counts, number: int, seed: int) -> list[PolicyTable]:
    """Return tables as other replies of the same player might have given them, by the bootstrap of this page."""
    rng, tables = np.random.default_rng(seed), []
    shares = {key: _smoothed(row) for key, row in counts.items()}
    for _ in range(number):
        rows = dict(table.probabilities)
        for key, row in counts.items():
            rows[key] = tuple(_drawn(rng, shares[key], sum(row), 1)[:, 0].tolist())
        tables.append(PolicyTable(table.game, rows))
    return tables


class _Replies:
    """What is known of a policy: rows [I][actions] in the order of a form, and the replies that they come from."""

    def __init__(self, form: SequenceForm, table: PolicyTable, counts: Counts) -> None:
        self._form, self._table = form, table
        self._counts = {key: np.asarray(row) for key, row in counts.items()}
        self.rows = [table.probabilities[key] for key in form.keys]

    def plans(self, rng: np.random.Generator) -> list[Floats]:
        """Return each seat's plans [Q, DRAWS] for replies that are drawn again."""
        form = self._form
        blocks: list[list[Floats]] = [[] for _ in range(form.seats)]
        for key, row in zip(form.keys, self.rows, strict=True):
            counted = self._counts.get(key)
            if counted is None:
                blocks[key[0]].append(np.repeat(np.asarray(row)[:, None], DRAWS, axis=1))
            else:
                blocks[key[0]].append(_drawn(rng, _smoothed(counted), int(counted.sum()), DRAWS))
        return [form.plans(seat, np.concatenate(blocks[seat])) for seat in range(form.seats)]

    def folds(self, rng: np.random.Generator) -> list[tuple[_Replies, _Replies]]:
        """Return (all but a fold, the fold) for each fold; nothing where a state has too few replies to be cut."""
        if any(counted.sum() < FOLDS for counted in self._counts.values()):
            return []
        parts: list[dict[Key, tuple[int, ...]]] = [{} for _ in range(FOLDS)]
        for key, counted in self._counts.items():
            replies = rng.permutation(np.repeat(np.arange(len(counted)), counted))
            for part, own in zip(parts, np.array_split(replies, FOLDS), strict=True):
                part[key] = tuple(np.bincount(own, minlength=len(counted)).tolist())
        rests = [{key: tuple((self._counts[key] - part[key]).tolist()) for key in part} for part in parts]
        return [(self._with(rest), self._with(part)) for rest, part in zip(rests, parts, strict=True)]

    def _with(self, counts: Counts) -> _Replies:
        rows = dict(self._table.probabilities)
        rows.update((key, tuple((np.asarray(row) / np.sum(row)).tolist())) for key, row in counts.items())
        return _Replies(self._form, PolicyTable(self._table.game, rows), counts)


def _smoothed(counts: Sequence[int] | NDArray[np.int64]) -> Floats:
    """Return shares of actions under Jeffreys' prior, none of which is 0."""
    return (np.asarray(counts, dtype=float) + 0.5) / (np.sum(counts) + len(counts) / 2.0)


def _drawn(rng: np.random.Generator, shares: Floats, replies: int, number: int) -> Floats:
    """Return ``number`` times the shares of this many replies (of one, where there was none)."""  # [actions, number]
    return np.asarray(rng.multinomial(max(replies, 1), shares, size=number).T / max(replies, 1))


def _plans(form: SequenceForm, rows: Sequence[Sequence[float]]) -> list[Floats]:
    """Return each seat's plan [Q, 1]; the sequences of the other seats do no harm in it."""
    return [form.plan(rows)[:, None]] * form.seats


def _responses(form: SequenceForm, rows: Sequence[Sequence[float]]) -> list[Floats]:
    """Return each seat's plan [Q, 1] of a best response; uniform at states that the others never lead to."""
    plan, responses = form.plan(rows), []
    for seat in range(form.seats):
        _, best = form.response(seat, plan[np.delete(form.last, seat, axis=1)].prod(axis=1))
        chosen = [
            (np.eye(len(ids))[best[index]] if index in best else np.full(len(ids), 1.0 / len(ids))).tolist()
            for index, ids in enumerate(form.legal)
        ]
        responses.append(form.plan(chosen)[:, None])
    return responses


def _gains(form: SequenceForm, plans: Sequence[Floats], responses: Sequence[Floats]) -> Floats:
    """Return what each seat gains by its response, for N plans of all seats at once."""  # [S, N]
    reached = [plan[form.last[:, seat]] for seat, plan in enumerate(plans)]  # [Z, N] each
    chance = form.chance[:, None]
    own = form.returns.T @ (chance * np.prod(reached, axis=0))
    gains = []
    for seat, response in enumerate(responses):
        others = np.prod([*reached[:seat], *reached[seat + 1 :]], axis=0)
        gains.append(form.returns[:, seat] @ (chance * others * response[form.last[:, seat]]) - own[seat])
    return np.stack(gains)


def _with_mean(gains: Floats) -> Floats:
    """Return gains [S, N] with their mean over seats as the last row."""  # [S + 1, N]
    return np.vstack([gains, gains.mean(axis=0)])


def _spread(gains: Floats) -> Floats:
    """Return the standard errors of each seat's gain, and of their mean, from draws [S, N]."""  # [S + 1]
    return np.asarray(_with_mean(gains).std(axis=1, ddof=1))
