"""Where a run's matches are played and its policies learn: this machine, or a Ray cluster.

May import every room of its wing but loop.
"""
