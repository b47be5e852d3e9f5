"""Snapshots: policies frozen into the population, gated, measured, and the cycle of exploiters.

May import monitors, starts, checkpoints and the interfaces of its wing, and all that stands below it.
"""
