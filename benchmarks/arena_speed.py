"""Steps per second of the arena, records included, beside TextArena's, in one process.

    python -m benchmarks.arena_speed [--matches N] [--repeats N] [--in-flight N] [--json]

Both play Kuhn poker between uniformly random players. A step is one action by one seat. The systems
take turns, so that whatever else the machine does meets all of them; the ratio is taken within a turn.
TextArena (``pip install textarena``) plays three deals in a match. It is measured twice: "raw", its
bare environment, which is the faster one and the one that the ratio is against, and "wrapped", as
``KuhnPoker-v0`` is registered. The wrapped one is made anew for each match, because its observation
wrapper keeps the text of earlier matches.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable, Sequence

from arena.records import MatchRequest
from arena.samplers.scripted import Random
from arena.scheduler import play
from games.registry import make_game
from games.seeds import derive_seed
from roles.cards import load_roles

GAME = "kuhn_poker"
IN_FLIGHT = 64  # scripted players gain nothing from larger batches, and 64 matches stay in the processor's cache


def arena_steps(requests: Sequence[MatchRequest], in_flight: int = IN_FLIGHT) -> int:
    """Play the matches in our arena, episodes kept; return the number of steps."""
    engine = Random()
    episodes = play(
        requests,
        roles_of=lambda name: load_roles(make_game(name).spec),
        engine_of={"random": engine}.__getitem__,
        make_game=make_game,
        in_flight=in_flight,
    )
    return sum(len(episode.turns) for episode in episodes)


def random_matches(number: int) -> list[MatchRequest]:
    """Return requests for matches between random players, each with seeds of its own."""
    return [
        MatchRequest(i, GAME, derive_seed(i, "deal"), derive_seed(i, "sample"), ("random", "random"), (True, True))
        for i in range(number)
    ]


def textarena_steps(matches: int, *, wrapped: bool) -> int:
    """Play the matches in TextArena; return the number of steps."""
    import textarena

    name = "KuhnPoker-v0" if wrapped else "KuhnPoker-v0-raw"
    environment = textarena.make(name)
    steps = 0
    for _ in range(matches):
        if wrapped:
            environment = textarena.make(name)
        environment.reset(num_players=2)
        done = False
        while not done:
            environment.get_observation()
            legal = list(environment.state.game_state["current_legal_action_tree"])
            done, _ = environment.step(f"[{legal[int(random.random() * len(legal))]}]")
            steps += 1
        environment.close()
    return steps


def rate(run: Callable[[], int]) -> float:
    """Return one run's steps per second of this process's own time: other programs' time does not count."""
    start = time.process_time()
    return run() / (time.process_time() - start)


def measure(matches: int, repeats: int, in_flight: int) -> dict[str, dict[str, float]]:
    """Return min, median and max over the repeats of each system's steps/s and of our ratio to TextArena."""
    requests = random_matches(matches)
    systems: dict[str, Callable[[], int]] = {
        "arena": lambda: arena_steps(requests, in_flight),
        "textarena_raw": lambda: textarena_steps(max(1, matches // 4), wrapped=False),
        "textarena_wrapped": lambda: textarena_steps(max(1, matches // 8), wrapped=True),
    }
    arena_steps(requests[:50]), textarena_steps(5, wrapped=True)  # imports and caches
    rates: dict[str, list[float]] = {name: [] for name in systems}
    for _ in range(repeats):
        for name, run in systems.items():
            rates[name].append(rate(run))
    rates["ratio"] = [ours / raw for ours, raw in zip(rates["arena"], rates["textarena_raw"], strict=True)]
    return {
        name: {"min": min(values), "median": statistics.median(values), "max": max(values)}
        for name, values in rates.items()
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--matches", type=int, default=5_000, help="matches of ours in one repeat")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--in-flight", type=int, default=IN_FLIGHT, help="matches of ours played side by side")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    arguments = parser.parse_args()
    result = measure(arguments.matches, arguments.repeats, arguments.in_flight)
    if arguments.json:
        print(json.dumps(result))
        return
    print(f"{'':20}{'min':>12}{'median':>12}{'max':>12}")
    for name, figures in result.items():
        form = ",.2f" if name == "ratio" else ",.0f"
        print(f"{name:20}" + "".join(f"{figures[key]:>12{form}}" for key in ("min", "median", "max")))


if __name__ == "__main__":
    main()
