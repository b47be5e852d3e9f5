"""What credit rules and shared policies are worth at pocket scale: conditions side by side, the same seeds for each.

    python -m benchmarks.credit STUDY [--seeds 0 1 2 3 4] [--keep DIR] [--workers 2] [--json]

Every condition of a study trains the same small model from nothing, on the same number of matches, with settings
that are equal but for what is compared. Batches are small on purpose: a baseline only takes away noise, and a large
batch has little. Figures are exact where a game can be counted out. With --keep, finished runs are remembered, so a
measurement that was cut off goes on where it stopped.
"""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from benchmarks.studies import arguments_of, measured

HANABI = "hanabi(players=2,colors=1,ranks=3,hand_size=2,max_information_tokens=2,max_life_tokens=1)"
HEX = "hex(board_size=3)"
OWN = "a policy for each role"  # in place of an override

COMMON = """
threads = 1
iterations = 120
snapshot_every = 120
episodes_kept = 0
model = { hidden_size = 64, intermediate_size = 128 }
cold_start.steps = 40
objective = { name = "ppo", clip_low = 0.9, clip_high = 9.0, kl_old = 2.0 }
learner = { learning_rate = 1e-3, learning_rate_end = 2e-4, inner_steps = 2, minibatch_prompts = 64 }
matchmaking = { self_play = 1.0, fictitious = 0.0 }
evaluation = { matches = 0, exact = false }
"""


class Game(NamedTuple):
    """One game of a study."""

    name: str
    words: str
    settings: str  # TOML, below games.NAME
    figure: str  # what is measured, and of which less or more is better
    less_is_better: bool


class Condition(NamedTuple):
    """One way to train."""

    name: str
    overrides: tuple[str, ...]


class Study(NamedTuple):
    """Conditions to compare; the first is the one that others are measured from."""

    games: tuple[str, ...]
    conditions: tuple[Condition, ...]


COOPERATIVE = "matches = 64, entropy = 0.6, entropy_end = 0.02"  # found on tiny Hanabi; Hanabi itself is held out
GAMES = {
    game.name: game
    for game in (
        Game("kuhn_poker", "Kuhn poker", "matches = 64, entropy = 0.15, entropy_end = 0.04", "exploitability", True),
        Game(HEX, "Hex 3 × 3", "matches = 64, entropy = 0.1, entropy_end = 0.03", "exploitability", True),
        Game("tiny_hanabi", "tiny Hanabi", COOPERATIVE, "share of the optimum", False),
        Game(HANABI, "Hanabi, 1 colour × 3 ranks", COOPERATIVE, "share of 3 points", False),
    )
}
BEST = {"tiny_hanabi": 10.0, HANABI: 3.0}  # the best return; not every deal of Hanabi allows it

BASELINES = (  # in a zero-sum game of which both seats train, one running baseline for all roles stays at 0
    Condition("no baseline (or rae with one for all roles)", ("credit.rule=reinforce",)),
    Condition("rae, a baseline for each role", ("credit.rule=rae",)),
    Condition("mars, one mean for all roles", ("credit.rule=mars", "credit.baseline=game")),
    Condition("mars, a mean for each role", ("credit.rule=mars",)),
)
STUDIES = {
    "baselines": Study(("kuhn_poker", HEX), BASELINES),
    "levels": Study(
        (HANABI,),
        (
            Condition(
                "trajectory level, one mean", ("credit.rule=mars", "credit.level=trajectory", "credit.baseline=game")
            ),
            Condition("trajectory level, a mean for each role", ("credit.rule=mars", "credit.level=trajectory")),
            Condition("turn level, one mean", ("credit.rule=mars", "credit.baseline=game")),
            Condition("turn level, a mean for each role", ("credit.rule=mars",)),
        ),
    ),
    "policies": Study(
        ("kuhn_poker", HEX, "tiny_hanabi"),
        (
            Condition("one policy for both roles", ("credit.rule=rae",)),
            Condition("a policy for each role", ("credit.rule=rae", OWN)),
        ),
    ),
}


class Run(NamedTuple):
    """One training run to be measured."""

    game: str
    condition: Condition
    seed: int

    @property
    def key(self) -> str:
        """What tells this run from others of any study."""
        return json.dumps([self.game, *self.condition.overrides, self.seed])


def measure(run: Run) -> dict[str, float]:
    """Train in a temporary folder and return the figures of the run."""
    from games.registry import make_game
    from league import settings
    from league.session import train

    game = GAMES[run.game]
    overrides = [one for one in run.condition.overrides if one != OWN]
    with tempfile.TemporaryDirectory(prefix="league-") as temporary:
        toml = Path(temporary) / "config.toml"
        toml.write_text(f'{COMMON}seed = {run.seed}\ngames."{run.game}" = {{ {game.settings} }}\n', encoding="utf-8")
        if OWN in run.condition.overrides:
            roles = settings.seat_roles(settings.load(str(toml)).roles, make_game(run.game).spec)
            overrides += [f"roles.policy.'{run.game}/{role.name}'={role.name}" for role in roles]
        started = time.perf_counter()
        with contextlib.redirect_stderr(io.StringIO()):
            train(settings.load(str(toml), overrides), Path(temporary) / "run")
        seconds = time.perf_counter() - started
        run_dir = Path(temporary) / "run"
        return {"figure": strength(game, run_dir), "seconds": seconds, **noise(run_dir)}


def strength(game: Game, run_dir: Path) -> float:
    """Return the figure of a finished run: exact but for Hanabi, which is the mean of 512 matches with itself."""
    from games.registry import make_game
    from league.exploitability import exploitability, head_to_head
    from league.player_engines import Engines
    from league.players import resolve

    spec = make_game(game.name).spec
    player = resolve(str(run_dir), spec, Engines())
    if game.name == HANABI:
        return _mean_return(player, 512) / BEST[HANABI]
    table = player.tabulate(0, 20_000).table
    return exploitability(table) if game.less_is_better else head_to_head([table] * 2)[0] / BEST[game.name]


def _mean_return(player: Any, matches: int) -> float:
    from arena.records import MatchRequest
    from arena.scheduler import play
    from games.registry import make_game

    names = tuple(members[0][0] for members in player.members)
    requests = [MatchRequest(i, player.spec.name, i, i, names, (False,) * len(names)) for i in range(matches)]
    episodes = play(
        requests,
        roles_of=lambda _: player.roles,
        engine_of=lambda _: player.engine,
        make_game=make_game,
        in_flight=matches,
    )
    return fmean(episode.returns[0] for episode in episodes)


def noise(run_dir: Path) -> dict[str, float]:
    """Return means over the run: |mean advantage| of a role in an iteration, its spread, and the gradient's norm."""
    from league.board import read_metrics

    found: dict[str, list[float]] = {"offset": [], "spread": [], "grad_norm": []}
    for line in read_metrics(run_dir):
        for name, value in line.items():
            if "/advantage/" in name:
                found["offset" if name.endswith("/mean") else "spread"].append(abs(value))
            elif name.endswith("/grad_norm"):
                found["grad_norm"].append(value)
    return {name: fmean(values) for name, values in found.items()}


def study(name: str, seeds: Sequence[int], workers: int, keep: Path) -> dict[str, Any]:
    """Measure all runs of a study that ``keep`` does not know yet; return the figures by game and condition."""
    chosen = STUDIES[name]
    runs = [Run(game, c, seed) for game in chosen.games for seed in seeds for c in chosen.conditions]
    known = measured(runs, measure, keep / "credit.jsonl", workers, _shown)
    tables = [
        {
            "game": GAMES[game].words,
            "figure": GAMES[game].figure,
            "less_is_better": GAMES[game].less_is_better,
            "conditions": [
                {"name": c.name, "runs": [known[Run(game, c, seed).key] for seed in seeds]} for c in chosen.conditions
            ],
        }
        for game in chosen.games
    ]
    return {"study": name, "seeds_used": list(seeds), "tables": tables}


def _shown(run: Run, found: dict[str, Any]) -> str:
    """Return one finished run in a line."""
    return f"{run.game}, {run.condition.name}, seed {run.seed}: {found['figure']:.3f} ({found['seconds']:.0f} s)"


def main() -> None:
    """Measure and print."""
    arguments = arguments_of(__doc__, list(STUDIES))
    with tempfile.TemporaryDirectory(prefix="league-") as temporary:
        keep = arguments.keep or Path(temporary)
        keep.mkdir(parents=True, exist_ok=True)
        result = study(arguments.study, arguments.seeds, arguments.workers, keep)
    if arguments.json:
        print(json.dumps(result))
        return
    for table in result["tables"]:
        for condition in table["conditions"]:
            figures = " ".join(f"{run['figure']:.3f}" for run in condition["runs"])
            print(f"{table['game']}: {table['figure']}: {condition['name']}: {figures}")


if __name__ == "__main__":
    main()
