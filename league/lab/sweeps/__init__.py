"""Sweeps: several runs that are planned, trained and evaluated, one after another or side by side, and compared.

May import every other room of the lab, and the wings below it.
"""
