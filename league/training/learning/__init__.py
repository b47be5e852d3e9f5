"""From trajectories to new weights: credit, updates, policies, and the processes that learn.

May import evidence and everything below it, but neither backends nor loop.
"""
