"""From trajectories to new weights: credit, updates, policies, and the processes that learn.

May import rooms up to ``players``: config, meta_solvers, results, exact, storage, models, monitors, matchmaking.
"""
