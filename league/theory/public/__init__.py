"""Games whose moves are public, by arrays: a walk over public positions with a vector over private hands at each.

May import games, and exact beside it.
"""
