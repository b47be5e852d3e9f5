"""Learning: episodes become trajectories, advantages, batches and updated policies.

May import arena, roles and games.
"""
