"""Helpers for every package that have nothing to do with games: errors, atomic files, seeds, tables of settings.

May import no module of the project.
"""
