"""Small tournaments for tests: one that is played here, its command line, and all that it found."""

from league.match_store import STORE_FILE, MatchStore
from league.tournament import Question, Tournament, opened

KUHN = Question("kuhn_poker", ("random", "equilibrium", "always:bet", "always:pass"), 60, 5)


def played(question, folder):
    asked = Tournament(question)
    with opened(folder, asked) as store:
        asked.play(store, lambda _: None)
    return MatchStore(folder / STORE_FILE)


def words(question, folder):
    options = ["--game", question.game, "--matches", question.matches, "--seed", question.seed, "--run-dir", folder]
    return ["tournament", *question.players, *map(str, options)]


def everything(folder, game="kuhn_poker"):
    """Return all that a tournament found, to be compared bit for bit."""
    with MatchStore(folder / STORE_FILE) as store:
        cells, pairs = store.cells(game), store.pairs(game)
        arrays = [
            getattr(one, name) for one in (cells, pairs) for name in one.__dataclass_fields__ if name != "players"
        ]
        return list(store.matches(game)), cells.players, [array.tobytes() for array in arrays]
