"""The loss of an update: surrogates, divergences, entropy and preference pairs, and their sum over a batch.

May import the files at the root of learners, and ``parallel``.
"""
