"""Breeding: rules that make a generation of runs from the last one, and the loop that applies them.

May import training and the wings below it, but no other room of the lab.
"""
