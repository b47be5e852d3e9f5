"""Leads without rounding, to decide who won a deal when sums of doubles cannot.

A game that pays in tenths or thirds pays doubles near them, and sums of doubles need not be level where the tenths are:
the mean of 0.2 and 0.4 is 6e-17 more than 0.3. So a return counts as the fraction in 2,520ths whose double it is, if
there is one and it is below 1e9 (1 to 10 divide 2,520), and otherwise as the shortest decimal with the same double.
Fractions are added as whole numbers.

2,520ths are added as fast as doubles; otherwise each different return takes some microseconds, if a deal is near level.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from league.population.results.match_columns import Columns, Floats, Ints

Whole = NDArray[Any]  # int64, or objects: Python's integers, which have no bounds

_PARTS = 2520
_LARGEST = 1e9  # with this many parts doubles are far from overflowing
_ROUNDING = (
    2.0**-50
)  # of the largest return: four times what a step can be off by, as a lead is up to twice that return


def may_be_level(totals: Floats, matches: Ints, returns: Floats) -> NDArray[np.bool_]:
    """Return which sums of leads, each over its number of ``matches``, may have the wrong sign by rounding.  # [deals]

    With n matches of S seats there are n (n + S + 2) steps at most. ``returns`` [M, S] are all returns.
    """
    step = _ROUNDING * np.abs(returns).max(initial=0.0)
    rounding = matches * (matches + returns.shape[1]) * step + np.finfo(float).tiny  # for what is lost below it
    near: NDArray[np.bool_] = np.isinf(totals) | ~(np.abs(totals) > rounding)
    return near


def exact_leads(columns: Columns, match: Ints, a: Ints, b: Ints) -> Whole:
    """Return a's lead over b in each of some matches, all times one positive number, for any sum of them.  # all [Q]"""
    returns, seated = columns.returns[match], columns.seated[match]
    whole, seats = _whole(returns), returns.shape[1]
    common = math.lcm(*range(1, seats))  # a mean times this is whole, whatever number of seats it is over
    fits = 2 * len(match) * common * (int(np.abs(whole).max(initial=0)) + 1) < 2**63
    kind = np.int64 if fits else object
    whole = whole.astype(kind)
    if seats == 2:
        return np.where(seated[:, 0] == a, whole[:, 0] - whole[:, 1], whole[:, 1] - whole[:, 0])
    shares = np.array([0] + [common // held for held in range(1, seats)], kind)
    held_a, held_b = (seated == player[:, None] for player in (a, b))
    of_a, of_b = ((whole * held).sum(axis=1) * shares[held.sum(axis=1)] for held in (held_a, held_b))
    return np.asarray(of_a - of_b)


def _whole(returns: Floats) -> Whole:
    """Return the fractions that ``returns`` count as, all of them times one whole number."""
    if (np.abs(returns) < _LARGEST).all():
        whole = np.rint(returns * _PARTS)
        if (whole / _PARTS == returns).all():
            return whole.astype(np.int64)
    values, inverse = np.unique(returns, return_inverse=True)
    fractions = [_fraction(value) for value in values.tolist()]
    common = math.lcm(*{below for _, below in fractions})
    return np.array([above * (common // below) for above, below in fractions], object)[inverse].reshape(returns.shape)


def _fraction(value: float) -> tuple[int, int]:
    """Return the fraction that a return counts as, as numerator and denominator."""
    if abs(value) < _LARGEST and round(value * _PARTS) / _PARTS == value:
        return round(value * _PARTS), _PARTS
    return Decimal(repr(value)).as_integer_ratio()
