"""Several runs: which they are, that each is trained and asked about once, side by side or not, and their table.

May import every room of the league but ``commands``, ``api`` and ``cli``.
"""
