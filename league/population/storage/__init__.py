"""A run's files: its folder, checkpoints, the population of snapshots, the lock.

May import results, config and theory.
"""
