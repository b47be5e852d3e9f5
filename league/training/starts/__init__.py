"""Starts of matches: the pool that keeps them, the figures of each, and which are played next.

May import population and everything below it.
"""
