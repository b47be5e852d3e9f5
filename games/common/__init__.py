"""Helpers of every package that are not about games: errors, atomic files, seeds, tables of settings.

May import no module of the project.
"""
