"""Branching where it pays (ARPO, arXiv 2507.19849): which turns of played matches are played on from again.

May import what matchmaking may.

A rule, one a file, scores every turn of the matches that were played; ``budget`` takes the best that can be paid for.
To add a rule: write its file with a function ``(episodes, entropies) -> scores``, name it in ``RULES`` and in
``BranchingConfig``.
"""

from league.population.matchmaking.branching import entropy, value_spread
from league.population.matchmaking.branching.budget import BranchPoint, choose, fork_requests, most_replies
from league.population.matchmaking.branching.scores import BranchRule, Entropies

RULES: dict[str, BranchRule] = {"entropy": entropy.scores, "value_spread": value_spread.scores}

__all__ = ["RULES", "BranchPoint", "Entropies", "choose", "fork_requests", "most_replies"]
