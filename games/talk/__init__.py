"""Games in which words matter, one a file, and the conversations that they hold.

May import common, spec and native.
"""
