"""Matches of one start as a whole tree of replies."""

import itertools

from support.learning.trajectories import trajectory

ROLES = ("generator", "verifier", "refiner")


def tree(outcomes, n=2, start=0, first=0, seats=3):
    """Return the trajectories of one tree with these outcomes at its leaves, in order."""
    paths = itertools.product(range(n), repeat=seats)
    return [
        trajectory(
            [0.0] * (seat < 2) or [outcome],
            total=outcome,
            game="relay_arithmetic",
            role=ROLES[seat],
            seat=seat,
            match=first + leaf,
            deal_seed=start,
            players=("main",) * seats,
            branch=tuple(hash((start, path[: k + 1])) for k in range(seats)),
        )
        for leaf, (path, outcome) in enumerate(zip(paths, outcomes, strict=True))
        for seat in range(seats)
    ]
