"""Commands that measure players, against each other and against the best possible play.

May import every wing, and code of other groups that several commands share.
"""
