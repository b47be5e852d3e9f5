"""Commands that show what is there: games, and a run's curves.

May import every wing, and of the other groups what several commands share.
"""
