"""OpenSpiel's social choice: battles as its votes, and its maximal lotteries without the solver that they want."""

import sys
from types import ModuleType

import numpy as np
from open_spiel.python.voting import base
from scipy.optimize import linprog


def profile(wins):
    """Return battles as OpenSpiel's votes over two alternatives; ``wins`` [N, N] are counts."""
    votes = [
        base.WeightedVote(int(wins[i, j]), [i, j]) for i in range(len(wins)) for j in range(len(wins)) if wins[i, j]
    ]
    return base.PreferenceProfile(votes=votes, alternatives=list(range(len(wins))))


def solve_zero_sum_matrix_game(game):
    """Return the first player's maximin strategy, in the place of OpenSpiel's solver, which wants cvxpy."""
    payoffs = np.array([[game.player_utility(0, i, j) for j in range(game.num_cols())] for i in range(game.num_rows())])
    rows, columns = payoffs.shape
    least = np.hstack([-payoffs.T, np.ones((columns, 1))])  # v − Σ_i p_i A_ij ≤ 0
    sums = np.append(np.ones(rows), 0.0)[None]
    found = linprog(
        np.append(np.zeros(rows), -1.0), least, np.zeros(columns), sums, [1.0], [(0, None)] * rows + [(None, None)]
    )
    return found.x[:rows], None, None, None


def maximal_lotteries():
    """Return OpenSpiel's maximal lotteries."""
    name = "open_spiel.python.algorithms.lp_solver"
    stub = ModuleType(name)
    stub.solve_zero_sum_matrix_game = solve_zero_sum_matrix_game
    before = sys.modules.get(name)
    sys.modules[name] = stub
    try:
        from open_spiel.python.voting.maximal_lotteries import MaximalLotteriesVoting

        return MaximalLotteriesVoting()
    finally:
        sys.modules.pop(name)
        if before is not None:
            sys.modules[name] = before
