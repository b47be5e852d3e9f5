"""The models that runs and players begin with: what can be had, where it is kept, and the base of a run's adapters.

May import rooms up to ``storage``: config, meta_solvers, results, exact.
"""
