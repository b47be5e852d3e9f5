"""Comparisons by matches: which of two players is stronger, results over a suite, what each role adds to a team.

May import standings, credit and opponents of the lab, and the wings below it.
"""
