"""Figures for the board, one subject a file: each takes numbers and returns pixels. The only place for matplotlib.

May import: nothing of the other rooms.
"""
