"""Seconds and bytes of `league report` on a run of 2,000 iterations and 200 snapshots.

    python -m benchmarks report
    python -m benchmarks.speed.long_run [--iterations N] [--snapshots N] [--matches N] [--keep DIR] [--json]

The run's folder is made here, not trained: three games, sixty metrics an iteration, matches among the snapshots, policy
tables that go from uniform play to an equilibrium, ratings, and kept matches. It has every file that a report reads.
The weights are a few bytes, which a report does not read. ``report`` is the whole command, in its own process.

Expected before the first measurement: 10 s, 3 MB.
"""

from __future__ import annotations

import json
import math
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from arena.records import EndReason, Episode, MatchRequest, Turn
from arena.samplers.scripted import Random
from arena.scheduler import play
from benchmarks.speed.timing import clock_seconds, print_figures, speed_parser, spread
from games.common.files import atomic_write
from games.common.sealed_json import write_sealed
from games.common.seeds import derive_seed
from games.registry import make_game
from league.config import RunConfig
from league.config.load import seat_roles, validate, write_run_config
from league.population.results.match_store import STORE_FILE, MatchStore
from league.population.results.ratings import Ratings
from league.population.storage.population import Population
from league.population.storage.run_dir import STATE_FOLDER
from league.population.storage.sampled_matches import sample_matches, save_samples
from league.theory.exact.exploitability import PolicyTable, uniform_table
from league.theory.exact.game_value import nash_equilibrium
from league.training.board.metrics_log import METRICS_FILE
from learners.trajectories import to_trajectories

GAMES = ("kuhn_poker", "leduc_poker", "tic_tac_toe")
TABULATED = ("kuhn_poker", "leduc_poker")
POLICY = "main"


def make_run(path: Path, iterations: int = 2_000, snapshots: int = 200, matches: int = 256, seed: int = 0) -> None:
    """Write the folder of a run that has so many iterations, matches of each game in each, and snapshots."""
    every = max(iterations // max(snapshots - 1, 1), 1)
    config = validate(
        {
            "seed": seed,
            "iterations": iterations,
            "snapshot_every": every,
            "games": {game: {"matches": matches} for game in GAMES},
        }
    )
    path.mkdir(parents=True)
    write_run_config(path, config)
    rng = random.Random(seed)
    steps = [min(index * every, iterations) for index in range(snapshots)]
    population = Population(path / "population")
    for index, step in enumerate(steps):
        parent = f"{POLICY}-{steps[index - 1]:06d}" if index else None
        population.add(POLICY, step, parent, lambda folder: _write(folder / "model.safetensors", "weights"))
    _write_metrics(path, iterations, steps, rng)
    _write_matches(path, config, iterations, steps, rng)
    _write_tables(path, steps, rng)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _write_metrics(path: Path, iterations: int, steps: list[int], rng: random.Random) -> None:
    """Write metrics that fall towards a floor, with noise."""
    names = [f"{POLICY}/{name}" for name in ("entropy", "gap", "kl_old", "clipped", "loss", "grad_norm")]
    for game in GAMES:
        roles = [role.name for role in seat_roles(validate({"games": {game: {}}}).roles, make_game(game).spec)]
        names += [f"{game}/{kind}/{role}" for kind in ("score", "flat_groups") for role in roles]
        names += [f"{game}/advantage/{role}/{kind}" for kind in ("mean", "spread") for role in roles]
    names += [f"other/{number}" for number in range(max(60 - len(names), 0))]
    measured = [f"{game}/{name}" for game in TABULATED for name in ("exploitability", "mixture_exploitability")]
    measured += ["rating", *(f"{game}/score_against_random" for game in GAMES)]
    lines, due = [], set(steps)
    for iteration in range(iterations + 1):
        line = {"iteration": iteration}
        for name in (names if iteration else []) + (measured if iteration in due else []):
            line[name] = 0.05 + math.exp(-3 * iteration / iterations) * (0.4 + 0.1 * rng.random())  # type: ignore[assignment]
        lines.append(json.dumps(line))
    atomic_write(path / METRICS_FILE, "\n".join(lines) + "\n")


def _write_matches(path: Path, config: RunConfig, iterations: int, steps: list[int], rng: random.Random) -> None:
    """Write matches of the newest snapshot with others, ratings, and some that are kept to be read."""
    ratings, index = Ratings(["random"]), 0
    with MatchStore(path / STORE_FILE) as store:
        for iteration in range(iterations + 1):
            players = [f"{POLICY}-{step:06d}" for step in steps if step <= iteration] + ["random"]
            for game in GAMES:
                batch = list(_batch(game, players, config.games[game].matches, index, rng))
                store.add(batch, iteration)
                index += len(batch)
                if iteration == iterations:
                    ratings.update(batch[:64])
    atomic_write(path / "ratings.json", json.dumps(ratings.to_json()))
    atomic_write(path / "mixtures.json", json.dumps({}))
    for step in steps[1:]:
        _keep_matches(path, config, step, rng)


def _batch(game: str, players: list[str], matches: int, first: int, rng: random.Random) -> Iterator[Episode]:
    """Yield matches of the newest player with others, each deal in both seatings."""
    roles = ("first", "second")
    turns = tuple(Turn(seat, role, "", "", (), "", None, 0.0, None) for seat, role in enumerate(roles))
    for number in range(matches):
        opponent = rng.randrange(len(players) - 1)
        pair = (players[-2], players[opponent]) if opponent < len(players) - 2 else (players[-2], "random")
        gain = 1.0 if rng.random() < 0.55 else -1.0
        order = 1 if number % 2 else -1
        request = MatchRequest(
            first + number, game, derive_seed("deal", first + number // 2), 0, pair[::order], (False, False), "rating"
        )
        yield Episode(request, turns, (gain, -gain)[::order], EndReason.FINISHED)


def _keep_matches(path: Path, config: RunConfig, step: int, rng: random.Random) -> None:
    """Keep some matches of an iteration, played at random, with advantages of chance."""
    roles = {game: seat_roles(config.roles, make_game(game).spec) for game in GAMES}
    players, trained = (POLICY, POLICY), (True, True)
    requests = [
        MatchRequest(1_000 * step + number, game, derive_seed(step, number), number, players, trained, "self_play")
        for number, game in enumerate(game for game in GAMES for _ in range(6))
    ]
    engine = Random()
    episodes = play(
        requests, roles_of=roles.__getitem__, engine_of=lambda _: engine, make_game=make_game, in_flight=len(requests)
    )
    trajectories = to_trajectories(episodes, roles.__getitem__, dict.fromkeys(GAMES, 1.0))
    advantages = [[rng.gauss(0, 1) for _ in trajectory.turns] for trajectory in trajectories]
    save_samples(
        path, step, sample_matches(episodes, trajectories, advantages, step, config.episodes_kept // len(GAMES))
    )


def _write_tables(path: Path, steps: list[int], rng: random.Random) -> None:
    """Write tables that go from uniform play to an equilibrium."""
    for game in TABULATED:
        uniform, equilibrium = uniform_table(game), nash_equilibrium(make_game(game).spec)
        assert equilibrium is not None
        for step in steps:
            share = min(max(step / max(steps[-1], 1) + rng.gauss(0, 0.03), 0.0), 1.0)
            rows = [[*key, *_between(uniform, equilibrium, key, share)] for key in uniform.probabilities]
            write_sealed(path / STATE_FOLDER / "tables" / f"{POLICY}-{step:06d}.{game}.json", rows)


def _between(a: PolicyTable, b: PolicyTable, key: tuple[int, str], share: float) -> list[float]:
    pairs = zip(a.probabilities[key], b.probabilities[key], strict=True)
    return [(1 - share) * p + share * q for p, q in pairs]


def _of_children() -> float:
    """Return the processor's seconds that ended child processes have taken, which other programs hardly change."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Make the run, time the report and print both."""
    parser = speed_parser(__doc__)
    parser.add_argument("--iterations", type=int, default=2_000)
    parser.add_argument("--snapshots", type=int, default=200)
    parser.add_argument("--matches", type=int, default=128, help="of each game, an iteration")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--keep", metavar="DIR", help="make the run in DIR, and keep it with its report")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(arguments.keep or Path(folder) / "long")
        if not path.exists():
            make_run(path, arguments.iterations, arguments.snapshots, arguments.matches)
        page = path / "report.html"
        command = [sys.executable, "-m", "league", "report", str(path), "-o", str(page)]
        seconds, processor_seconds = list[float](), list[float]()
        for _ in range(arguments.repeats):
            before = _of_children()
            seconds.append(clock_seconds(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL)))
            processor_seconds.append(_of_children() - before)
        sizes = [page.stat().st_size / 1e6]
        figures = spread({"seconds": seconds, "processor_seconds": processor_seconds, "megabytes": sizes})
    print_figures(figures, "", ",.2f", as_json=arguments.json)


if __name__ == "__main__":
    main()
