"""One run: the loop, evidence, learning, backends, checkpoints, starts, snapshots, monitors and the board.

May import league.population, league.config and league.theory.
"""
