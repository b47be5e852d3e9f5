"""A run's files: its folder, checkpoints, the population of snapshots, the lock.

May import config, meta_solvers, results and exact.
"""
