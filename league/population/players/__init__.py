"""Players by the names that users write, and the engines that reply for them.

May import results, storage, models and matchmaking, config and theory.
"""
