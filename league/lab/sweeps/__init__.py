"""Several runs: which they are, that each is trained and asked about once, side by side or not, and their table.

May import every other room of the lab, and all that stands below it.
"""
