"""What exact figures of large games cost: measures beside OpenSpiel's, and tables of language models by tree decoding.

    python -m benchmarks.speed.large_games [--json]

**Measures**: exploitability of uniform play, tree included, each system in its own process; seconds are of the
processor, after two small games, so that nothing is loaded within them;
memory is what the peak of the process rises by. OpenSpiel's are ``pyspiel.exploitability``,
in C++, and ``exploitability`` of its Python library. ``difference`` is the largest from OpenSpiel's over uniform play
and, where its table takes seconds, 20 random policies.

**Tables**: the probabilities at every information state of a game, by a pocket model with random weights and, where it
was fetched (``league models get smollm2-135m``), by SmolLM2: prompts in batches, as the tables of small games are read,
and by the tree of all prompts. Both include the prompts' text and tokens. ``difference`` is the largest.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.speed.timing import in_a_process

SYSTEMS = ("league", "cpp", "python")
POKER = (
    "universal_poker(betting=limit,numPlayers=2,blind=1 1,raiseSize={raises},firstPlayer=1 1,maxRaises={most},"
    "numRounds={rounds},numSuits={suits},numRanks={ranks},numHoleCards=1,numBoardCards=0 {board})"
)
GAMES = {  # what they are called in the table, and whether 20 random policies are compared
    "liar's dice, 1 die of 4 faces": ("liars_dice(dice_sides=4,numdice=1)", True),
    "liar's dice, 1 die of 5 faces": ("liars_dice(dice_sides=5,numdice=1)", False),
    "liar's dice, 2 dice of 2 faces": ("liars_dice(dice_sides=2,numdice=2)", True),
    "Kuhn poker, 13 cards": (
        POKER.format(raises="1 1", most="1 1", rounds=1, suits=1, ranks=13, board=0),
        True,
    ),
    "Leduc poker": ("leduc_poker", True),
    "Leduc poker, 5 ranks": (POKER.format(raises="2 4", most="2 2", rounds=2, suits=2, ranks=5, board=1), False),
    "goofspiel, 4 cards, hidden bids": ("goofspiel(imp_info=True,num_cards=4,points_order=descending)", True),
    "goofspiel, 5 cards, hidden bids": ("goofspiel(imp_info=True,num_cards=5,points_order=descending)", False),
}
RANDOM_POLICIES = 20
WARMED = (
    "kuhn_poker",
    "liars_dice(dice_sides=2,numdice=1)",
    GAMES["goofspiel, 4 cards, hidden bids"][0].replace("4", "2"),
)
TABLES = (
    ("pocket", "liars_dice(dice_sides=6,numdice=1)"),
    ("pocket", "leduc_poker"),
    ("pocket", "goofspiel(imp_info=True,num_cards=5,points_order=descending)"),
    ("smollm2-135m", "liars_dice(dice_sides=3,numdice=1)"),
)
BATCH = 4096  # states that are asked at once in the table of prompts


def measures(name: str) -> dict[str, Any]:
    """Return one row of the first table."""
    game, compared = GAMES[name]
    costs = {system: _child("cost", game, system) for system in SYSTEMS}
    row: dict[str, Any] = {"game": name, "states": costs["league"]["states"]}
    for system in SYSTEMS:
        row |= {f"{system}_{key}": costs[system][key] for key in ("seconds", "peak_mb")}
    differences = [abs(costs["league"]["exploitability"] - costs[other]["exploitability"]) for other in SYSTEMS[1:]]
    if compared:
        differences.append(_child("compare", game)["difference"])
    return row | {"policies": 1 + RANDOM_POLICIES * compared, "difference": max(differences)}


def cost(game: str, system: str) -> dict[str, Any]:
    """Return what exploitability of uniform play is in a system, and its seconds and memory."""
    import pyspiel
    from open_spiel.python import policy as openspiel_policy
    from open_spiel.python.algorithms.exploitability import exploitability as by_python

    from games.openspiel.game import load_pyspiel

    def found(name: str) -> tuple[float, int]:
        loaded = load_pyspiel(name)
        if system == "league":
            return _ours(name)
        if system == "cpp":
            return pyspiel.exploitability(loaded, pyspiel.UniformRandomPolicy(loaded)), 0
        return by_python(loaded, openspiel_policy.UniformRandomPolicy(loaded)), 0

    for name in WARMED:
        found(name)
    before, begun = _peak(), time.process_time()
    exploitability, states = found(game)
    seconds = time.process_time() - begun
    return {"exploitability": exploitability, "seconds": seconds, "peak_mb": _peak() - before, "states": states}


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


def _ours(game: str) -> tuple[float, int]:
    from league.theory.public import from_openspiel, goofspiel, liars_dice
    from league.theory.public.measures import exploitability

    if (bids := goofspiel.goofspiel_of(game)) is not None:
        return goofspiel.exploitability(bids, (bids.uniform(), bids.uniform())), bids.information_states
    known = liars_dice.states_of(game) is not None
    tree = liars_dice.tree_of(game) if known else from_openspiel.public_tree(game)
    return exploitability(tree, tree.uniform()), tree.information_states


def compare(game: str) -> dict[str, float]:
    """Return the largest difference from OpenSpiel's exploitability over random policies."""
    from open_spiel.python import policy as openspiel_policy
    from open_spiel.python.algorithms.exploitability import exploitability as by_python

    from games.openspiel.game import load_pyspiel
    from league.theory.public import from_openspiel, goofspiel, liars_dice, reading
    from league.theory.public.measures import exploitability

    loaded, bids = load_pyspiel(game), goofspiel.goofspiel_of(game)
    differences = []
    for seed in range(RANDOM_POLICIES):
        table, rng = openspiel_policy.TabularPolicy(loaded), np.random.default_rng(seed)

        def answer(asked: Sequence[Any], table: Any = table, rng: Any = rng) -> list[Any]:
            rows = []
            for seat, match in asked:
                rows.append(rng.dirichlet(np.full(len(match.legal_ids()), 0.5)))
                shown = table.policy_for_key(match.pyspiel_state().information_state_string(seat))
                shown[:] = 0.0
                shown[list(match.legal_ids())] = rows[-1]
            return rows

        if bids is not None:
            first, second = (goofspiel.read_policy(bids, seat, answer) for seat in (0, 1))
            found = goofspiel.exploitability(bids, (first, second))
        else:
            known = liars_dice.states_of(game) is not None
            tree = liars_dice.tree_of(game) if known else from_openspiel.public_tree(game)
            found = exploitability(tree, reading.read_policy(tree, answer))
        differences.append(abs(found - by_python(loaded, table)))
    return {"difference": max(differences)}


def tabled(model: str, game: str) -> dict[str, Any]:
    """Return one row of the second table."""
    import torch

    from arena.contexts import request_in
    from arena.samplers.torch_lm import TorchLM
    from games.openspiel.game import OpenSpielGame
    from league.config import RolesConfig
    from league.config.load import seat_roles
    from league.population.models.source import model_folder
    from league.theory.exact.exploitability import information_positions

    torch.set_num_threads(1)
    roles = seat_roles(RolesConfig(wording="brief" if model == "pocket" else "full"), OpenSpielGame(game).spec)
    points = sorted(information_positions(game).items())
    rng = random.Random(0)
    requests = [request_in("model", roles[seat], match, rng) for (seat, _), match in points]

    def timed(read: Callable[[TorchLM], list[Any]]) -> tuple[float, list[Any]]:
        engine = TorchLM()
        engine.add("model", _pocket(requests) if model == "pocket" else _loaded(model_folder(model)))
        engine.distributions(requests[:1])
        begun = time.process_time()
        rows = read(engine)
        return time.process_time() - begun, rows

    by_prompt, old = timed(
        lambda e: [row for i in range(0, len(requests), BATCH) for row in e.distributions(requests[i : i + BATCH])]
    )
    by_tree, new = timed(lambda e: list(e.bulk_distributions(requests)))
    difference = max(float(np.abs(np.subtract(a, b)).max()) for a, b in zip(old, new, strict=True))
    return {
        "model": model,
        "game": game,
        "states": len(requests),
        "prompt_seconds": by_prompt,
        "tree_seconds": by_tree,
        "difference": difference,
    }


def _pocket(requests: Sequence[Any]) -> Any:
    from arena.lm.pocket import PocketShape, build_pocket
    from roles.chat_text import plain_text
    from roles.prompts import messages

    texts = [plain_text(messages(r.role, r.observation, r.legal)) for r in requests[:: max(1, len(requests) // 2000)]]
    return build_pocket([*texts, *{f">{label}" for r in requests for label in r.legal}], PocketShape(), 0)


def _loaded(folder: Path | str) -> Any:
    from arena.lm.language_model import LanguageModel

    return LanguageModel.load(folder)


def large_lines(result: dict[str, Any]) -> list[str]:
    """Return both tables in Markdown."""
    lines = ["| game | states | league | OpenSpiel, C++ | OpenSpiel, Python | faster than C++, Python | policies |"]
    lines[0] += " largest difference |"
    lines.append("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for row in result["measures"]:
        costs = [f"{row[f'{s}_seconds']:.3f} s, {row[f'{s}_peak_mb']:.0f} MB" for s in SYSTEMS]
        faster = ", ".join(f"{row[f'{s}_seconds'] / row['league_seconds']:,.0f} ×" for s in SYSTEMS[1:])
        cells = [row["game"], f"{row['states']:,}", *costs, faster, str(row["policies"]), f"{row['difference']:.0e}"]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "| model | game | states | prompts in batches | the tree of prompts | faster | largest difference |"]
    lines.append("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for row in result["tables"]:
        seconds = [f"{row[key]:.1f} s" for key in ("prompt_seconds", "tree_seconds")]
        faster = f"{row['prompt_seconds'] / row['tree_seconds']:.1f} ×"
        cells = [row["model"], f"`{row['game']}`", f"{row['states']:,}", *seconds, faster, f"{row['difference']:.0e}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _child(*words: str) -> Any:
    return in_a_process("benchmarks.speed.large_games", "--only", *words)


def main() -> None:
    """Measure and print."""
    from league.population.models.cache import stored_model

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", help="one figure, in this process: cost GAME SYSTEM, and the like")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    arguments = parser.parse_args()
    if arguments.only:
        figure, *words = arguments.only
        figures: dict[str, Callable[..., Any]] = {"cost": cost, "compare": compare, "tabled": tabled}
        print(json.dumps(figures[figure](*words)))
        return
    rows = [measures(name) for name in GAMES]
    tables = [_child("tabled", *row) for row in TABLES if row[0] == "pocket" or stored_model(row[0])]
    result = {"measures": rows, "tables": tables}
    print(json.dumps({"large": result}) if arguments.json else "\n".join(large_lines(result)))


if __name__ == "__main__":
    main()
