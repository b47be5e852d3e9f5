"""Results of matches: the payoff table, online ratings, the store of matches, and statistics of estimates.

May import config and theory.
"""
