"""Studies of games in which it pays to work together: dilemmas, public goods, partners and strangers.

May import all packages of the project, and ``benchmarks.studies.runs``.
"""
