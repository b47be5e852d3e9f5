"""The commands of the command line, one a file, in rooms by what they do. May import every room of the league.

``run`` does the work. A command with ``--json`` returns a report from ``run``; ``to_json`` gives it as JSON
data, and ``print_report`` prints it for people.
"""
