"""What matches are played for: to decide who is stronger of two, and to see how a player does over a suite of games.

It may import evaluation and what lies before it.
"""
