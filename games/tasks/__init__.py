"""Games whose matches are tasks that a program can check, one a file, and the checker.

A task may be dealt, or given as text, by whoever wrote it. May import common, spec, native and talk; a game of its
``proposers`` has the seat of an author.
"""
