"""What three wordings of the same cards do to an untrained language model with free replies.

    python -m benchmarks.studies.language.wordings [wordings] [--seeds 0 1 2 3 4] [--matches 12] [--json]

SmolLM2-135M plays against ``random``, each deal in both seats; an illegal reply forfeits. A seed decides deals, draws
and demonstrations. The figure is the share of its replies that are illegal; its score counts a win 1 and a draw 0.5.
Needs the model: ``league models get smollm2-135m``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from arena.samplers.torch_lm import TorchLM
from games.registry import make_game
from league.config import RolesConfig
from league.config.load import seat_roles
from league.population.evaluation.head_to_head import compare
from league.population.models.source import model_folder
from league.population.players.engines import Engines
from league.population.players.player import Player, resolve

MODEL = "smollm2-135m"
GAMES = ("kuhn_poker", "tic_tac_toe", "leduc_poker")
TEMPERATURES = (1.0, 0.5, 0.1)
MAX_REPLY_TOKENS = 12
MATCHES = 12  # of a seed, in both seatings


class Wording(NamedTuple):
    """How the same game is told."""

    name: str
    wording: str  # of ``roles.wording``
    demonstrations: int


WORDINGS = (
    Wording("brief: form in the instructions", "brief", 0),
    Wording("full: all rules, form and legal replies at the end", "full", 0),
    Wording("full, after one demonstration", "full", 1),
)


def player(engine: TorchLM, wording: Wording, game: str, temperature: float, seed: int) -> Player:
    """Return the model as a player in one game."""
    spec = make_game(game).spec
    config = RolesConfig(
        reply="free",
        on_illegal="forfeit",
        wording=wording.wording,
        demonstrations=wording.demonstrations,
        max_reply_tokens=MAX_REPLY_TOKENS,
        temperature=temperature,
    )
    roles = tuple(role.model_copy(update={"demonstration_seed": seed}) for role in seat_roles(config, spec))
    return Player(MODEL, spec, engine, roles, (((MODEL, 1.0),),) * spec.seats)


def measure(seeds: Sequence[int], matches: int) -> dict[str, Any]:
    """Return one table for each game and temperature, as ``benchmarks.report.comparison`` shows them."""
    engine = TorchLM()
    engine.register(MODEL, model_folder(MODEL))
    tables = []
    with Engines() as engines:
        for game in GAMES:
            opponent = resolve("random", make_game(game).spec, engines)
            for temperature in TEMPERATURES:
                conditions = []
                for wording in WORDINGS:
                    runs = []
                    for seed in seeds:
                        model = player(engine, wording, game, temperature, seed)
                        result = compare((model, opponent), matches, seed)
                        runs.append({"figure": result.illegal_rates[0] or 0.0, "score": result.score.mean})
                        print(game, temperature, wording.name, seed, runs[-1], file=sys.stderr, flush=True)
                    conditions.append({"name": wording.name, "runs": runs})
                tables.append(
                    {
                        "game": game,
                        "figure": f"illegal replies at temperature {temperature:g}",
                        "less_is_better": True,
                        "columns": {"score": "score against random"},
                        "conditions": conditions,
                    }
                )
    return {"tables": tables}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=["wordings"], default="wordings")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--matches", type=int, default=MATCHES)
    parser.add_argument("--keep", metavar="DIR", help="accepted as by other studies; nothing is trained here")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    arguments = parser.parse_args()
    print(json.dumps(measure(arguments.seeds, arguments.matches), indent=None if arguments.json else 2))


if __name__ == "__main__":
    main()
