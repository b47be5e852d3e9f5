"""Roles: a seat's instructions and prompts, how its reply is parsed, and what an illegal reply costs.

May import ``games``.
"""
