"""Monitoring of a run while it trains: alarms, the log of metrics and figures, what is shown first, the live view.

May import population and what stands below it.
"""
