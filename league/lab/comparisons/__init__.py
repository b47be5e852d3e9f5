"""What matches are played for: to decide who is stronger of two, to see how a player does over a suite of games, and
to judge which of a run's games are worth training.

It may import evaluation and what lies before it.
"""
