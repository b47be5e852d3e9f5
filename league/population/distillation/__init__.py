"""One model in place of a mixture: what the mixture says in each situation, a model that is taught it, and how near.

May import every room of its wing but evaluation, and all that stands below it.
"""
