"""The backends on which a run plays and its policies learn: this machine, or a Ray cluster.

May import every room of its wing but loop.
"""
