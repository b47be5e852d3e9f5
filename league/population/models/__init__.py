"""The models that runs and players begin with: the catalogue, the cache, the bases of adapters, and example requests.

May import results and storage, config and theory.
"""
