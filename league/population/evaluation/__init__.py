"""How good players are: head to head, tournaments, rating matches, the empirical game, regret, exploiters.

May import every room of its wing, and the wings below it.
"""
