"""Studies of teachers: on-policy distillation compared with imitation, and the price of a teacher that sees more.

May import all packages of the project, and ``benchmarks.studies.runs``.
"""
