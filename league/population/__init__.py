"""Who there is and how good each one is: storage, results, models, players, matchmaking, evaluation, distillation.

May import league.config and league.theory.
"""
