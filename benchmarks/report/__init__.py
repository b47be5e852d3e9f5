"""Stored results to Markdown: the page of results, its tables and curves, and where a result was measured.

The shape of the source, too, as a table (``house``) and as the drawing of ``docs/extend/design.md`` (``wings``).

May import ``league.results`` and ``games.common``, and no other room of the benchmarks.
"""
