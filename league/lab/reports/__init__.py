"""What a person reads of runs and matches: replays and reports, as data and as HTML pages that need no network.

May import every room below: standings, evaluation and what those stand on. Charts are SVG written by hand: a few kB
each, in the colours of the page by day and by night, with texts that stay texts.
"""
