"""Seats whose turns are taken by a program, which asks the policy through an API and plays one of its replies.

May import all of arena, roles and games. Within: turns, the board that offers them, the engine that the referee asks,
the server.
"""
