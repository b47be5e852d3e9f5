"""Suites: games to evaluate a player by, those that one may train on and those that one may not. TOML files.

It may import games.
"""
