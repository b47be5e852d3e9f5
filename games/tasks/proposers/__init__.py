"""Games of a role that writes tasks, which other roles then attempt: one a file, and what writing a task pays.

May import common, spec, native, talk and the games of tasks.
"""
