"""Commands that play matches between players.

May import every wing, and code of other groups that several commands share.
"""
