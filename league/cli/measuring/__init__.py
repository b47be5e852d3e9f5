"""Commands that measure players, against each other and against what could be played.

May import every wing, and of the other groups what several commands share.
"""
