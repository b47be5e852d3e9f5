"""Between play and learning: matches that go on from the middle of others, and all that is known beside play.

May import what ``league.run`` may, and nothing else of ``league.run``.
"""
