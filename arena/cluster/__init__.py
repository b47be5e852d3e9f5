"""Workers on a cluster: the protocol that Ray fulfils, groups of workers, and the pool that plays matches on them.

May import arena's records, errors and lm, roles and games; Ray only in ``ray_cluster``.
"""
