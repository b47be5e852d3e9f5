"""Seats whose turns a program takes: it asks the policy through an API, and plays one of its replies.

May import all of arena, roles and games. Within: turns, the board that offers them, the engine that the referee asks,
the server.
"""
