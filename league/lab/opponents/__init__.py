"""Models of the other player: what a seat can know of whom it plays with, exactly and by a probe, and play by that.

May import training and the wings below it, but no other room of the lab.
"""
