"""Engines, which reply to requests: one engine a file, and helpers that only engines need.

May import all of arena, roles and games.
"""
