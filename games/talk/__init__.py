"""Games in which seats talk, one a file, and their conversations.

May import common, spec and native.
"""
