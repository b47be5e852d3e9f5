"""Forked matches, and evidence computed from play before learning: sources, one a file, listed in ``sources.py``.

May import checkpoints, monitors and the interfaces of its wing, but not the learners beside it.
"""
