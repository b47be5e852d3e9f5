"""Games of other libraries as games of this one: PettingZoo's environments and TextArena's.

It may import common, spec and talk. The libraries are imported only when such a game is asked for.
"""
