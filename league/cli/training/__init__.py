"""Commands that train: a run, and one that continues its population.

May import every wing, and of the other groups what several commands share.
"""
