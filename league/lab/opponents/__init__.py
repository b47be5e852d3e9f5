"""Models of the other player: predicting its type and actions, exactly and by a probe.

May import training and the wings below it, but no other room of the lab.
"""
