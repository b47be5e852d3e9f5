"""Replies of a language model, token by token: on the host, or on a device without waiting for each token.

May import the other files of arena's lm, but is imported by engines only.
"""
