"""Work on finished runs: reports, comparisons, credit accuracy, sweeps, breeding, standings, attacks.

May import league.training and the wings below it.
"""
