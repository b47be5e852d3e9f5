"""Steps per second of the arena, records included, beside TextArena's, in one process.

    python -m benchmarks.speed.arena [--matches N] [--repeats N] [--in-flight N] [--json]

Both play Kuhn poker between uniformly random players. A step is one action by one seat. The systems
take turns, so that other load on the machine affects all of them; the ratio is taken within a turn.
TextArena (``make bench`` installs it) plays three deals in a match. It is measured twice: "raw", its
bare environment, which is the faster one and the one that the ratio is against, and "wrapped", as
``KuhnPoker-v0`` is registered. The wrapped one is made again for each match, because its observation
wrapper accumulates the text of earlier matches.
A repeat is long enough to pay for the garbage collections that keeping its records causes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from arena.records import MatchRequest
from arena.samplers.scripted import Random
from arena.scheduler import play
from benchmarks.speed.timing import Figures, print_figures, process_rate, ratios, speed_parser, spread
from benchmarks.speed.workload import match_requests
from games.registry import make_game
from roles.cards import load_roles

GAME = "kuhn_poker"
IN_FLIGHT = 64  # scripted players gain nothing from larger batches, and 64 matches fit into the processor's cache


def arena_steps(requests: Sequence[MatchRequest], in_flight: int = IN_FLIGHT) -> int:
    """Play the matches in this arena and keep the episodes; return the number of steps."""
    engine = Random()
    episodes = play(
        requests,
        roles_of=lambda name: load_roles(make_game(name).spec),
        engine_of={"random": engine}.__getitem__,
        make_game=make_game,
        in_flight=in_flight,
    )
    return sum(len(episode.turns) for episode in episodes)


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


def measure(matches: int, repeats: int, in_flight: int) -> Figures:
    """Return each system's steps/s, and this arena's ratio to TextArena."""
    requests = match_requests(GAME, [("random", "random")] * matches)
    systems: dict[str, Callable[[], int]] = {
        "arena": lambda: arena_steps(requests, in_flight),
        "textarena_raw": lambda: textarena_steps(max(1, matches // 4), wrapped=False),
        "textarena_wrapped": lambda: textarena_steps(max(1, matches // 8), wrapped=True),
    }
    arena_steps(requests[:50]), textarena_steps(5, wrapped=True)  # imports and caches
    rates: dict[str, list[float]] = {name: [] for name in systems}
    for _ in range(repeats):
        for name, run in systems.items():
            rates[name].append(process_rate(run))
    rates["ratio"] = ratios(rates["arena"], rates["textarena_raw"])
    return spread(rates)


def main() -> None:
    """Measure and print."""
    parser = speed_parser(__doc__)
    parser.add_argument("--matches", type=int, default=50_000, help="matches of this arena in one repeat")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--in-flight", type=int, default=IN_FLIGHT, help="matches of this arena played side by side")
    arguments = parser.parse_args()
    figures = measure(arguments.matches, arguments.repeats, arguments.in_flight)
    print_figures(figures, "steps/s", ",.0f", as_json=arguments.json)


if __name__ == "__main__":
    main()
