"""The audit of anybody's player: a plan with its cost, what was measured by it, and what follows, on one page.

May import ``theory``, ``population``, ``lab.attacks`` and ``lab.reports``.
"""
