"""Games written in this project, one a file, and what they share.

May import ``games.common`` and ``games.spec``.
"""
