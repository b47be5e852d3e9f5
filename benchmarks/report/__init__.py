"""Stored results to Markdown: the page of results, its tables and curves, and where a result was measured.

May import ``league.results`` and ``games.common``, and no other room of the benchmarks.
"""
