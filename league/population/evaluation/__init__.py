"""How good players are: head to head, tournaments, rating matches, the empirical game, regret, exploiters.

May import rooms up to ``learning``: config, meta_solvers, results, exact, storage, models,
monitors, matchmaking, players.
"""
