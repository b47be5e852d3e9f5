"""Exploiters trained by RLlib against a frozen player.

May import arena, roles and games, and no other room of learners.
"""
