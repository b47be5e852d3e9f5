"""Commands that show things: games, settings, documentation, and a run's curves, matches and reports.

May import every wing, and code of other groups that several commands share.
"""
