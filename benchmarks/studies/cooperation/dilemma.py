"""The iterated prisoner's dilemma by advantage alignment and by the same credit without it.

    python -m benchmarks.studies.cooperation.dilemma [--seeds 0 1 2 3 4] [--keep DIR] [--json]

Each seed is two `league train ipd`, one with the preset's beta and one with
`credit.advantage_alignment.weight=0`: then an advantage is the reward to go less its mean over the matches at
that turn. Each last snapshot plays itself
and `always:defect`. Mutual cooperation is the share of rounds in which both seats cooperate; defection,
against the defector, is counted from the second round on, when the snapshot has seen its opponent defect.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.studies.runs import FIGURES, cost_of, sweep
from league import load_config

if TYPE_CHECKING:
    from arena.records import Episode

GAME = "repeated_game(stage_game=matrix_pd(),num_repetitions=8)"
MATCHES = 400
RULES: dict[str, tuple[str, ...]] = {"aligned": (), "plain": ("credit.advantage_alignment.weight=0",)}


def rounds(episode: Episode) -> list[tuple[str | None, ...]]:
    """Return the actions of each round, by seat."""
    seats = [[turn.action for turn in episode.turns if turn.seat == seat] for seat in (0, 1)]
    return list(zip(*seats, strict=True))


def mutual_cooperation(episodes: Sequence[Episode]) -> float:
    """Return the share of all rounds in which both seats cooperate."""
    joint = [actions for episode in episodes for actions in rounds(episode)]
    return joint.count(("cooperate", "cooperate")) / len(joint)


def defection(episodes: Sequence[Episode], player: str) -> float:
    """Return the share of a player's actions from the second round on that are defect."""
    actions = [joint[episode.request.players.index(player)] for episode in episodes for joint in rounds(episode)[1:]]
    return actions.count("defect") / len(actions)


def conduct(run_dir: Path) -> dict[str, float]:
    """Return a run's last snapshot's cooperation with itself and defection against ``always:defect``."""
    from games.registry import make_game
    from league.population.evaluation.head_to_head import compare
    from league.population.players.engines import Engines
    from league.population.players.player import resolve

    spec, engines = make_game(GAME).spec, Engines()
    learner, defector = (resolve(text, spec, engines) for text in (str(run_dir), "always:defect"))
    ((identity, _),) = learner.members[0]
    with_itself = compare((learner, learner), MATCHES, seed=0).episodes
    with_defector = compare((learner, defector), MATCHES, seed=0).episodes
    return {"cooperation": mutual_cooperation(with_itself), "defection": defection(with_defector, identity)}


def measure(seeds: Sequence[int], keep: Path) -> dict[str, Any]:
    """Train and measure both rules once for each seed; the runs stay in ``keep`` as RULE_seed-SEED."""
    configs = {rule: load_config("ipd", *overrides) for rule, overrides in RULES.items()}
    swept = sweep(configs, seeds, keep, workers=1, questions={FIGURES: conduct})
    all_figures = []
    for seed in seeds:
        figures: dict[str, float] = {"seed": seed}
        for rule in RULES:
            run = swept[rule, seed]
            figures[f"{rule}_seconds"] = cost_of(run).seconds
            figures |= {f"{rule}_{name}": share for name, share in run.answers[FIGURES].items()}
        all_figures.append(figures)
    return {"preset": "ipd", "seeds": all_figures}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the runs in DIR/ipd, and go on with them")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="league-") as temporary:
        result = measure(arguments.seeds, (arguments.keep or Path(temporary)) / "ipd")
    if arguments.json:
        print(json.dumps(result))
        return
    for figures in result["seeds"]:
        print("   ".join(f"{name} {value:.4g}" for name, value in figures.items()))


if __name__ == "__main__":
    main()
