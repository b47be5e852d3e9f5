"""Accuracy of credit rules in a game: each rule's gradient on the same matches, compared with the exact one.

May import training and the wings below it, but no other room of the lab.
"""
