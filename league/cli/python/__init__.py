"""The league for Python: what ``import league`` hands on. May import every wing.

``league/__init__.py`` loads a name from here when it is first used, so ``import league`` itself is instant.
"""
