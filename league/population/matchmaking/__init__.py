"""Matchmaking: rules that weigh opponents, league roles, and the draw of an iteration's matches.

May import results and storage, config and theory.
"""

from league.population.matchmaking.curriculum import matches_by_game
from league.population.matchmaking.draw import draw_matches
from league.population.matchmaking.lineups import DrawContext
from league.population.matchmaking.opponent_pool import OpponentPool
from league.population.matchmaking.rules import register
from league.population.storage.members import Member, MetaStrategy

__all__ = ["DrawContext", "Member", "MetaStrategy", "OpponentPool", "draw_matches", "matches_by_game", "register"]
