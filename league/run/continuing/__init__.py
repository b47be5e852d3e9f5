"""Matches of an iteration that go on from the middle of others: forks, and what values turns by playing on.

May import what ``league.run`` may, and nothing else of ``league.run``.
"""
