"""Exact game theory for games small enough to enumerate: best responses, exploitability, values, equilibrium gaps.

May import games, and statistics and solvers beside it.
"""
