"""Studies of self-play: populations, last iterates, one model to hand over, and a curriculum over games.

May import all packages of the project, and ``benchmarks.studies.runs``.
"""
