"""Services that are fed the metrics of a run beside its own files: one a file, by the name in ``board.loggers``.

May import games.common, league.config and nothing else of the league. A service's package is installed as an extra, and
imported only in its own file, when a run that names it begins.
"""
