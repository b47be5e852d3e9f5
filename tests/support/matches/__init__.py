"""Matches, draws, tournaments and small games."""
