"""One run from its first to its last iteration: session, loop, snapshots, exploiters' cycle.

May import every room of the league but ``sweeps``, ``commands``, ``api`` and ``cli``.
"""
