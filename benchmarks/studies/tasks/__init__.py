"""Studies of games of tasks: which starts to play, who writes them, and what a player learns from them.

May import all packages of the project, and ``benchmarks.studies.runs``.
"""
