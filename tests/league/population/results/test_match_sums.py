"""Sums by pair against plain loops, where deals come in any order, and players may meet themselves."""

from collections import defaultdict

import numpy as np
import pytest

from league.population.results.match_columns import Columns
from league.population.results.match_sums import pairs

NAMES = ("a", "b", "c", "d")


def plainly(seated, deals, returns):
    """Return matches, deals, mean lead, its clustered error, and deals won, drawn and lost, by pair."""
    leads = defaultdict(lambda: defaultdict(list))  # by pair, then deal
    for (first, second), deal, (gain, loss) in zip(seated.tolist(), deals.tolist(), returns.tolist(), strict=True):
        if first != second:
            lead = gain - loss if first < second else loss - gain
            leads[min(first, second), max(first, second)][deal].append(lead)
    for pair, by_deal in sorted(leads.items()):
        values, count = [value for part in by_deal.values() for value in part], len(by_deal)
        mean = sum(values) / len(values)
        spread = sum(sum(value - mean for value in part) ** 2 for part in by_deal.values())
        error = np.sqrt(count / (count - 1) * spread) / len(values) if count > 1 else np.nan
        signs = [np.sign(sum(part)) for part in by_deal.values()]
        yield (*pair, len(values), count, mean, error, signs.count(1), signs.count(0), signs.count(-1))


@pytest.mark.parametrize("order", ["drawn", "by pair", "by pair and deal"])
@pytest.mark.parametrize("mirror", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_sums_of_pairs_are_those_of_loops(order, mirror, seed):
    rng = np.random.default_rng(seed)
    seated = rng.integers(0, len(NAMES), (200, 2))
    seated = seated if mirror else seated[seated[:, 0] != seated[:, 1]]
    deals = rng.choice(rng.integers(0, 2**62, 12), len(seated))
    keys = [deals, seated.max(axis=1), seated.min(axis=1)]
    rank = {"drawn": np.arange(len(seated)), "by pair": np.lexsort(keys[1:]), "by pair and deal": np.lexsort(keys)}
    seated, deals = seated[rank[order]], deals[rank[order]]
    gains = rng.integers(-2, 3, len(seated)).astype(float)
    found = pairs(Columns(NAMES, deals, seated, np.stack([gains, -gains], axis=1)))
    columns = (found.a, found.b, found.n, found.deals, found.lead, found.lead_error, found.won, found.drawn, found.lost)
    expected = list(zip(*plainly(seated, deals, np.stack([gains, -gains], axis=1)), strict=True))
    for values, wanted in zip(columns, expected, strict=True):
        np.testing.assert_allclose(values, wanted, atol=1e-12)
