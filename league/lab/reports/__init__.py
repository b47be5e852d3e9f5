"""Replays of matches and reports on runs, as data and as HTML pages that need no network.

May import standings of the lab, and the wings below it. Charts are SVG written by hand: a few kB each, in the page's
colours in light and dark mode, with text that stays text.
"""
