"""Seats of a match whose turns a program takes: it asks the policy through an API, and plays one of its replies.

Layer: arena. Rooms: the turns, the board that they are offered on, the server, the engine that the referee asks.
"""
