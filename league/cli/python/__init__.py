"""The Python interface: what ``import league`` exports. May import every wing.

``league/__init__.py`` loads a name from here when it is first used, so ``import league`` itself is instant.
"""
