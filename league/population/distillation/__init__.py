"""One model instead of a mixture: the mixture's targets, a model that is fitted to them, and how near it comes.

May import every room of its wing but evaluation, and the wings below it.
"""
