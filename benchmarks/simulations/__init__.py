"""Figures of rules alone, on tables and simulated matches: nothing is trained or played.

May import all packages of the project, and no other room of the benchmarks.
"""
