"""OpenSpiel's own ways to an equilibrium, as limits for last iterates: CFR+, tabular mirror descent and NFSP.

    python -m benchmarks.simulations.openspiel_solvers [--share 1.0] [--json]

CFR+ (Tammelin 2014) and magnetic mirror descent (Sokota et al., arXiv 2206.05825; step and entropy 1 / sqrt(t)) read
the whole tree in every iteration and so see no noise; of mirror descent it is the last iterate, of CFR+ the average.
NFSP (Heinrich and Silver, arXiv 1603.01121) learns from sampled episodes by networks, with the settings of OpenSpiel's
example for Kuhn poker; it is stopped after the episodes that the preset `settle` plays, and after as much processor
time as that takes. ``--share`` makes all budgets smaller. What `settle` comes to is read from its stored study.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyspiel

from benchmarks.report.page import RESULTS

SECONDS = {"kuhn_poker": 75.0, "leduc_poker": 195.0}  # of one core: what `settle` takes
EPISODES = 400 * 512  # that `settle` plays
STORED = {"kuhn_poker": "settle-kuhn", "leduc_poker": "settle-leduc"}  # parts that tell what it comes to


class Budget(NamedTuple):
    """What a solver may use; whichever ends first ends it."""

    seconds: float  # of processor time
    steps: float = float("inf")  # iterations or episodes


class Solver(NamedTuple):
    """A solver that runs step by step: an iteration over the tree, or an episode."""

    step: Callable[[], object]
    policy: Callable[[], Any]


def cfr_plus(game: Any) -> Solver:
    """Return CFR+; its policy is the average."""
    solver = pyspiel.CFRPlusSolver(game)
    return Solver(solver.evaluate_and_update_policy, solver.average_policy)


def mirror_descent(game: Any) -> Solver:
    """Return annealed magnetic mirror descent; its policy is the last iterate."""
    from open_spiel.python.algorithms.mmd_dilated import MMDDilatedEnt

    solver = MMDDilatedEnt(game, alpha=1.0)

    def step() -> None:
        solver.alpha = solver.stepsize = 1.0 / np.sqrt(solver.iteration_count)
        solver.update_sequences()

    return Solver(step, lambda: _as_pyspiel(solver.get_policies()))


def nfsp(game: Any) -> Solver:
    """Return NFSP; its policy is the average network."""
    from open_spiel.python import rl_environment
    from open_spiel.python.pytorch.nfsp import NFSP

    np.random.seed(0)  # it draws from numpy's global stream
    environment = rl_environment.Environment(game)
    shape, actions = environment.observation_spec()["info_state"][0], environment.action_spec()["num_actions"]
    sizes = {"hidden_layers_sizes": [128], "reservoir_buffer_capacity": 2_000_000, "anticipatory_param": 0.1}
    exploring = {"epsilon_decay_duration": 1_000_000, "epsilon_start": 0.06, "epsilon_end": 0.001}
    agents = [
        NFSP(seat, shape, actions, **sizes, **exploring, replay_buffer_capacity=200_000)
        for seat in range(game.num_players())
    ]

    def step() -> None:
        moment = environment.reset()
        while not moment.last():
            moment = environment.step([agents[moment.observations["current_player"]].step(moment).action])
        for agent in agents:
            agent.step(moment)

    return Solver(step, lambda: _averages(game, agents))


def _averages(game: Any, agents: Any) -> Any:
    """Return the agents' average policies as a table."""
    from open_spiel.python import policy as policies
    from open_spiel.python.pytorch.nfsp import MODE

    table = policies.TabularPolicy(game)
    for state in table.states:
        seat, legal = state.current_player(), np.zeros(game.num_distinct_actions())
        legal[state.legal_actions()] = 1
        with agents[seat].temp_mode_as(MODE.AVERAGE_POLICY):
            _, _, shares = agents[seat]._act(np.array(state.information_state_tensor(seat), np.float32), legal)
        table.action_probability_array[table.state_lookup[state.information_state_string(seat)]] = shares
    return _as_pyspiel(table)


def _as_pyspiel(table: Any) -> Any:
    from open_spiel.python.policy import python_policy_to_pyspiel_policy

    return python_policy_to_pyspiel_policy(table)


SOLVERS: dict[str, tuple[Callable[[Any], Solver], bool]] = {  # and whether a step is an episode
    "CFR+, average, whole tree": (cfr_plus, False),
    "mirror descent, last iterate, whole tree": (mirror_descent, False),
    "NFSP, sampled": (nfsp, True),
}


def solve(name: str, game: str, budget: Budget) -> dict[str, float]:
    """Return a solver's exploitability at the end of its budget, in the game's units, with what it used."""
    loaded = pyspiel.load_game(game)
    solver, steps, start = SOLVERS[name][0](loaded), 0, time.process_time()
    while steps < budget.steps and time.process_time() - start < budget.seconds:
        solver.step()
        steps += 1
    seconds = time.process_time() - start
    return {"figure": pyspiel.exploitability(loaded, solver.policy()), "steps": float(steps), "seconds": seconds}


def settled(game: str) -> list[dict[str, Any]]:
    """Return the row of the preset `settle`, means over the seeds of its stored study; none where there is no study."""
    path = RESULTS / f"{STORED[game]}.json"
    if not path.is_file():
        return []
    [table] = json.loads(path.read_text(encoding="utf-8"))["result"]["tables"]
    runs = next(condition["runs"] for condition in table["conditions"] if condition["name"] == "settle")
    figure = statistics.fmean(run["figure"] for run in runs)
    name = f"the preset `settle`, newest snapshot, mean of {len(runs)} seeds"
    return [{"name": name, "runs": [{"figure": figure, "steps": float(EPISODES), "seconds": SECONDS[game]}]}]


def measure(share: float = 1.0) -> dict[str, Any]:
    """Return a table for each game."""
    tables = []
    for game, seconds in SECONDS.items():
        conditions = settled(game)
        for name, (_, sampled) in SOLVERS.items():
            conditions.append({"name": f"{name}, equal seconds", "runs": [solve(name, game, Budget(seconds * share))]})
            if sampled:
                run = solve(name, game, Budget(float("inf"), EPISODES * share))
                conditions.append({"name": f"{name}, equal episodes", "runs": [run]})
        columns = {"steps": "iterations or episodes", "seconds": "processor seconds"}
        table = {"game": game, "figure": "exploitability", "less_is_better": True, "columns": columns}
        tables.append({**table, "places": 0, "conditions": conditions})
    return {"tables": tables}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=1.0, help="of the budgets (default: 1)")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    arguments = parser.parse_args()
    result = measure(arguments.share)
    if arguments.json:
        print(json.dumps(result))
        return
    for table in result["tables"]:
        for condition in table["conditions"]:
            [run] = condition["runs"]
            print(f"{table['game']}: {condition['name']}: {run['figure']:.4f} after {run['steps']:,.0f} steps")


if __name__ == "__main__":
    main()
