"""Speed of the arena, its engines, the learner and the stores, beside other systems where there are some.

May import all packages of the project, and no other room of the benchmarks.
"""
