"""Studies of credit: rules in training, how near they come to the exact gradient, and how noisy gradients are.

May import all packages of the project, and ``benchmarks.studies.runs``.
"""
