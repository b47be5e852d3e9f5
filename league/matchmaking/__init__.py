"""Who meets whom: one rule a file, and the draw that turns their shares into matches.

To add a rule for past opponents: write its file with a function ``OpponentPool -> probabilities``,
name it in ``opponents.PAST_RULES``, and give it a weight of the same name in ``SharesConfig``.
"""

from league.matchmaking.draw import draw_matches
from league.matchmaking.opponents import Scene
from league.matchmaking.pool import Member, Meta, OpponentPool

__all__ = ["Member", "Meta", "OpponentPool", "Scene", "draw_matches"]
