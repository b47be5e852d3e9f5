"""Studies of teachers: what on-policy distillation comes to beside imitation, and what a teacher that sees more costs.

May import all packages of the project, and ``benchmarks.studies.runs``.
"""
