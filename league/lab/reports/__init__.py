"""What a person reads of runs and matches: replays and reports, as data and as HTML pages that need no network.

May import standings of the lab, and all that stands below it. Charts are SVG written by hand: a few kB
each, in the colours of the page by day and by night, with texts that stay texts.
"""
