"""Players by the names that users write, and the engines that reply for them.

May import rooms up to ``matchmaking``: config, meta_solvers, results, exact, storage, models, monitors.
"""
