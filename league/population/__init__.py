"""The population and its strength: storage, results, models, players, matchmaking, evaluation, distillation.

May import league.config and league.theory.
"""
