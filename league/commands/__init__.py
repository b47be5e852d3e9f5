"""One command of the command line a file.

``run`` does the work. A command with ``--json`` returns what it found from ``run``; ``document`` turns
that into JSON data and ``tell`` into words.
"""
