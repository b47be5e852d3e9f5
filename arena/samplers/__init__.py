"""Engines, which reply to requests. One engine a file, and what only engines need.

May import all of arena, roles and games.
"""
