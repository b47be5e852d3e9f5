"""One run from its first to its last iteration: session, loop, recovery, and evolving it into another run.

May import every room of its wing, and all that stands below it; nothing of the lab.
"""
