"""The models that runs and players begin with: what can be had, where it is kept, the base of adapters, how to ask.

May import results and storage, config and theory.
"""
