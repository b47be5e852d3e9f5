"""Matchmaking: rules that weigh opponents, one a file, and the draw of an iteration's matches.

May import results and storage, config and theory.

To add a rule for past opponents: write its file with a function ``OpponentPool -> probabilities``,
name it in ``lineups.PAST_RULES``, and give it a weight of the same name in ``SharesConfig``; from outside,
give it to ``register``.
"""

from league.population.matchmaking.curriculum import matches_by_game
from league.population.matchmaking.draw import draw_matches
from league.population.matchmaking.lineups import DrawContext, register
from league.population.matchmaking.opponent_pool import OpponentPool
from league.population.storage.members import Member, MetaStrategy

__all__ = ["DrawContext", "Member", "MetaStrategy", "OpponentPool", "draw_matches", "matches_by_game", "register"]
