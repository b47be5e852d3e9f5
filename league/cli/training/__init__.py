"""Commands that train: runs, sweeps, populations that are bred, distilled models.

May import every wing, and code of other groups that several commands share.
"""
