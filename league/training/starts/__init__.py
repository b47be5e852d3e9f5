"""Starts of matches: the pool that keeps them, what was measured of each, and which are played next.

May import population and what stands below it.
"""
