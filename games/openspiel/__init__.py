"""OpenSpiel's games as Games: rules, position trees, readable observations, tensors, repeated matrix games.

May import ``games.common`` and ``games.spec``.
"""
