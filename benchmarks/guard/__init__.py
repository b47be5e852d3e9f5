"""The guard of speed: `make guard`.

Pieces of the project's work, each beside a fixed piece of work that does not depend on the project's code.
May import whatever is measured, and ``speed`` and ``report`` beside it.
"""
