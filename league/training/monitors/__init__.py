"""Warnings and views while a run trains: alarms, the clock of its phases, the live view.

May import population and everything below it.
"""
