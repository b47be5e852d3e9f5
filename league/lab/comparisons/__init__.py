"""What matches are played for: to decide who is stronger of two, to see how a player does over a suite of games, and
to judge which of a run's games are worth training.

May import standings, credit and opponents of the lab, and all that stands below it.
"""
