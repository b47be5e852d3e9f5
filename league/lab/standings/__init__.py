"""Standings of a population, for people to read: Elo, Nash averaging, cycles, diversity, payoff matrices.

May import population and theory.
"""
