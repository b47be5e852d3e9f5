"""Exact game theory for games small enough to enumerate: best responses, exploitability, values, equilibrium gaps.

May import config, meta_solvers and results.
"""
