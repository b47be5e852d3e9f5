"""What several test files need: a small model, and a run directory as training leaves it, made in a second or two."""

import gc
import json
import signal
from importlib.util import find_spec

import pytest
from hypothesis import HealthCheck, settings
from support.browser import open_chromium
from support.models.pocket import plainly, pocket

from games.common.limits import GC_THRESHOLDS

gc.set_threshold(*GC_THRESHOLDS)  # as the commands have it (``league.cli.command``)

GAME = "kuhn_poker"

# They need the real engine, and the environment that `make test-vllm` builds. Without it, this folder is found.
_vllm = find_spec("vllm")
collect_ignore = ["vllm"] if _vllm is None or _vllm.origin is None else []

# A shell that puts a command into the background has it ignore Ctrl-C, which some tests press.
signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says more about what else the machine does than about the code.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


@pytest.fixture(scope="module")
def lm():
    """Return a small pocket model."""
    return pocket()


@pytest.fixture(scope="module")
def plain(lm, tmp_path_factory):
    """Return the same model as ``transformers`` loads it by itself."""
    return plainly(lm, tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def browser():
    """Return a Chromium, or skip the test with the reason where there is none."""
    with open_chromium() as chromium:
        yield chromium


@pytest.fixture(scope="session")
def run_dir(tmp_path_factory):
    """Return a run of Kuhn poker with two snapshots of an untrained pocket model, results, ratings and metrics."""
    from arena.lm.pocket import PocketShape, build_pocket
    from league.config import RunConfig
    from league.config.load import write_run_config
    from league.population.storage.population import Population
    from league.training.board.metrics_log import MetricsLog

    path = tmp_path_factory.mktemp("runs") / "tiny"
    config = RunConfig(iterations=20, games={GAME: {}}, model={"hidden_size": 16, "layers": 1, "vocabulary": 300})
    path.mkdir()
    write_run_config(path, config)
    population = Population(path / "population")
    shape = PocketShape(hidden_size=16, layers=1, intermediate_size=16, vocabulary=300)
    for step in (0, 10):
        model = build_pocket(["Your card: J bet pass"], shape, seed=step)
        population.add("main", step, "main-000000" if step else None, model.save)
    record_matches(path)
    with MetricsLog(path) as board:
        for iteration in range(11):
            board.write(iteration, {f"{GAME}/exploitability": 0.5 - iteration / 100} if iteration in (0, 10) else {})
    return path


def record_matches(path):
    """Play matches of the two snapshots, at random, and write what a run keeps of them."""
    from arena.records import MatchRequest
    from arena.samplers.scripted import Random
    from arena.scheduler import play
    from games.registry import make_game
    from league.config import RolesConfig
    from league.config.load import seat_roles
    from league.population.results import payoffs
    from league.population.results.match_store import STORE_FILE, MatchStore
    from league.population.results.ratings import Ratings

    players = ("main-000000", "main-000010")
    requests = [MatchRequest(i, GAME, i, i, players[:: (-1) ** i], (False, False)) for i in range(20)]
    roles = seat_roles(RolesConfig(), make_game(GAME).spec)
    engine = Random()
    episodes = play(requests, roles_of=lambda _: roles, engine_of=lambda _: engine, make_game=make_game, in_flight=20)
    table, ratings = payoffs.PayoffTable(live=["main"], forgetting=0.9), Ratings()
    table.apply(payoffs.summarise(episodes, iteration=9))
    ratings.update(episodes)
    with MatchStore(path / STORE_FILE) as store:
        store.add(episodes, iteration=9)
    (path / "payoffs.json").write_text(json.dumps(table.to_json()))
    (path / "mixtures.json").write_text(json.dumps({GAME: [{"main-000000": 1 / 3, "main-000010": 2 / 3}] * 2}))
    (path / "ratings.json").write_text(json.dumps(ratings.to_json()))
