"""Models of the other player: what a seat can know of whom it plays with, exactly and by a probe, and play by that.

May import exact and what lies before it.
"""
