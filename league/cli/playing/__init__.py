"""Commands that play matches between players.

May import every wing, and of the other groups what several commands share.
"""
