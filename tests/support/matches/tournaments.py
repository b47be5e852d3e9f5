"""Small tournaments for tests: one that is played here, its command line, and all its results."""

from league.population.evaluation.tournament import Tournament, open_tournament
from league.population.evaluation.tournament_plan import TournamentPlan
from league.population.results.match_store import STORE_FILE, MatchStore

KUHN = TournamentPlan("kuhn_poker", ("random", "equilibrium", "always:bet", "always:pass"), 60, 5)


def played(plan, folder):
    tournament = Tournament(plan)
    with open_tournament(folder, tournament) as store:
        tournament.play(store, lambda _: None)
    return MatchStore(folder / STORE_FILE)


def words(plan, folder):
    options = ["--game", plan.game, "--matches", plan.matches, "--seed", plan.seed, "--run-dir", folder]
    return ["tournament", *plan.players, *map(str, options)]


def everything(folder, game="kuhn_poker"):
    """Return all results of a tournament, to be compared bit for bit."""
    with MatchStore(folder / STORE_FILE) as store:
        cells, pairs = store.cells(game), store.pairs(game)
        arrays = [
            getattr(table, name) for table in (cells, pairs) for name in table.__dataclass_fields__ if name != "players"
        ]
        return list(store.matches(game)), cells.players, [array.tobytes() for array in arrays]
