"""Why nothing is said in Werewolf: hearers who learn to listen first, and a speaker who then learns to speak to them.

    python -m benchmarks.studies.language.listening listening [--seeds 0 1 2 3 4] [--keep DIR] [--workers 2] [--json]

The game and the settings are those of the study of beliefs: five seats, one day, of 100 clues 60 certain. First one
villager learns, by its wins and by listening, beside three scripted villagers: Bayesians, who claim what their clues
say, or `random` ones, whose words say nothing. Then a new villager learns, by its wins, by listening and by what its
words do to the others' belief, beside three copies of that hearer, who learn no more. The figure is the bits that a
message of the speaker tells each hearer in held-out matches. At single states the columns say on what players go: the
bits that a speaker's message tells of its clue, all else equal and the four clues equally likely, and a hearer's vote
of one message, all five equally likely.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from math import log2
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import tomli_w

from benchmarks.studies.beliefs import COMMON, GAME, LISTENING, SEATS, SPEAKING, VILLAGERS
from benchmarks.studies.runs import Result, load_settings, run_study, sweep, table_lines
from games.talk.hidden_roles import NAMES, HiddenRoles
from games.talk.suspicion import NOBODY, SUSPECT, VOTE

if TYPE_CHECKING:
    from league import SweptRun
    from league.population.players.player import Player

LEARNER, *OTHERS = VILLAGERS
BAYES, WOLF = "scripted:bayes", "scripted:good"
BOTH = {"listening": LISTENING, "speaking": SPEAKING}  # without the first a speaker hardly reads its clue
TEACHERS = {"Bayesians": BAYES, "random speakers": "scripted:random"}  # whom hearers listened to
HELD_OUT = 300  # matches
STATES = 40  # single ones that are looked at
ITERATIONS = 40
SPEAKER, HEARER = 1, 2  # seats; the first speaks to the second
COLUMNS = {
    "of_clue": "bits of its clue in the speaker's message",
    "of_vote": "bits of a message in the hearer's vote",
    "before": "the hearers' belief in the truth at first",
    "heard": "when all have spoken",
    "wins": "the villagers' share of wins",
}


def settings_of(partner: str, beliefs: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a run in which one villager learns beside a partner in the other villagers' seats."""
    seats = {f"{GAME}/wolf": WOLF} | {f"{GAME}/{role}": partner for role in OTHERS}
    length = {"iterations": ITERATIONS, "snapshot_every": ITERATIONS}
    return COMMON | length | {"roles": {"player": seats}, "beliefs": {"ask": True, **beliefs}}


def model_of(run: SweptRun) -> str:
    """Return a run's newest model as a player of any seat; by the run's name scripts would keep their seats."""
    from league.population.storage.run_dir import open_run

    return f"hf:{open_run(str(run.run.path)).population.newest('main').path.resolve()}"


def play_beside(speaker: str, hearers: str, seed: int) -> dict[str, float]:
    """Return what a speaker's messages tell three hearers, in bits, and what these believe and all villagers win.

    Raises UsageError for players that do not exist.
    """
    from arena.records import MatchRequest
    from arena.scheduler import play
    from games.common.seeds import derive_seed
    from games.registry import make_game
    from league.population.players.engines import Engines
    from league.population.players.player import resolve, with_probes
    from league.training.board.observers.beliefs import belief_metrics

    spec = make_game(GAME).spec
    with Engines() as engines:
        named = {name: with_probes(resolve(name, spec, engines)) for name in (WOLF, speaker, hearers)}
        seated = [named[name] for name in (WOLF, speaker, *(hearers,) * len(OTHERS))]
        roles = tuple([player.roles[seat] for seat, player in enumerate(seated)])
        names = tuple([player.members[seat][0][0] for seat, player in enumerate(seated)])
        known = {name: engine for player in seated for name, engine in player.engines().items()}
        requests = [
            MatchRequest(
                i, GAME, derive_seed(seed, "held out", i), derive_seed(seed, "drawn", i), names, (False,) * SEATS
            )
            for i in range(HELD_OUT)
        ]
        episodes = play(requests, roles_of=lambda _: roles, engine_of=known.__getitem__, make_game=make_game)
    found = belief_metrics(episodes, {GAME: roles})
    return {
        "figure": found[f"{GAME}/information/{LEARNER}"],
        "before": fmean([found[f"{GAME}/belief/{role}/0"] for role in OTHERS]),
        "heard": fmean([found[f"{GAME}/belief/{role}/{SEATS}"] for role in OTHERS]),
        "wins": fmean([episode.returns[SPEAKER] > 0 for episode in episodes]),
    }


def single_states(seed: int) -> Iterator[tuple[list[Any], list[Any]]]:
    """Yield for drawn deals the speaker's turn with each of its four clues, and the hearer's vote after each of the
    speaker's five messages. All else is equal: names, the others' clues, and what the others say, which is drawn.
    """
    from games.registry import make_game

    rng, names, start = random.Random(seed), NAMES[:SEATS], make_game(GAME)
    assert isinstance(start, HiddenRoles)
    for _ in range(STATES):
        seats = rng.sample(names, SEATS)
        clues = [rng.choice([name for name in names if name != own]) for own in seats[1:]]
        said = {own: rng.choice([name for name in names if name != own]) for own in names}
        mine = [name for name in names if name != seats[SPEAKER]]

        def position(clue: str, message: str, seats=seats, clues=clues, said=said) -> Iterator[Any]:  # type: ignore[no-untyped-def]
            """Yield the speaker's turn and the hearer's vote."""
            game = start.undealt()
            for outcome in (*seats, clue, *clues[1:]):
                game.apply_chance(outcome)
            while (seat := game.to_act()) is not None:
                votes = game.legal_actions()[0].startswith(VOTE)
                if seat == (HEARER if votes else SPEAKER):
                    yield game.copy()
                if votes and seat == HEARER:
                    return
                words = message if seat == SPEAKER else said[seats[seat]]
                game.apply(f"{VOTE}{NOBODY}" if votes else f"{SUSPECT}{words}")

        turns = [next(position(clue, NOBODY)) for clue in mine]
        votes = [list(position(clues[0], message))[1] for message in (*mine, NOBODY)]
        yield turns, votes


def goes_by(player: Player, seat: int, states: Sequence[Sequence[Any]]) -> float:
    """Return how many bits a player's action tells of which of a state's equally likely variants it is in; the mean."""
    from league.lab.latent.utterances import utterances

    chosen = iter(utterances(player, [(seat, game) for variants in states for game in variants], samples=1, seed=0))
    bits = []
    for variants in states:
        rows = [[choice.share for choice in next(chosen)] for _ in variants]
        mean = [fmean(column) for column in zip(*rows, strict=True)]
        bits.append(_entropy(mean) - fmean([_entropy(row) for row in rows]))
    return fmean(bits)


def _entropy(row: Sequence[float]) -> float:
    return -sum(p * log2(p) for p in row if p > 0.0)


def measure_pair(speaker: str, hearer: str, seed: int) -> dict[str, float]:
    """Return the figures of a speaker beside hearers, in matches and at single states. Scripts draw, and have none."""
    from games.registry import make_game
    from league.population.players.engines import Engines
    from league.population.players.player import resolve

    figures, spec = play_beside(speaker, hearer, seed), make_game(GAME).spec
    turns, votes = zip(*single_states(seed), strict=True)
    with Engines() as engines:
        for name, seat, states, column in ((speaker, SPEAKER, turns, "of_clue"), (hearer, HEARER, votes, "of_vote")):
            if not name.startswith("scripted:"):
                figures[column] = goes_by(resolve(name, spec, engines), seat, states)
    return figures


def measure_study(_study: str, seeds: Sequence[int], workers: int, keep: Path) -> Result:
    """Train and measure all that is not in ``keep`` yet; return one table."""
    rows: dict[str, list[dict[str, Any]]] = {}
    listening = {f"hearer_of_{teacher.split()[0].lower()}": teacher for teacher in TEACHERS}
    configs = {
        name: load_settings(tomli_w.dumps(settings_of(TEACHERS[teacher], {"listening": LISTENING})))
        for name, teacher in listening.items()
    }
    for seed in seeds:
        hearers = sweep(configs, [seed], keep / f"hearers-{seed}", workers=workers)
        speaking = {
            name: load_settings(tomli_w.dumps(settings_of(model_of(hearers[name, seed]), BOTH))) for name in listening
        }
        speakers = sweep(speaking, [seed], keep / f"speakers-{seed}", workers=workers)
        for name, teacher in listening.items():
            hearer, speaker = model_of(hearers[name, seed]), model_of(speakers[name, seed])
            for condition, one, other in (
                (f"a Bayesian to who listened to {teacher}", BAYES, hearer),
                (f"who listened to {teacher}, to its like", hearer, hearer),
                (f"a speaker who then learned, to who listened to {teacher}", speaker, hearer),
            ):
                rows.setdefault(condition, []).append(measure_pair(one, other, seed))
        rows.setdefault("a Bayesian to Bayesians", []).append(measure_pair(BAYES, BAYES, seed))
    table = {
        "game": f"{GAME} beside {WOLF}, {ITERATIONS} iterations of 64 matches each",
        "figure": "bits of a message of one villager",
        "less_is_better": False,
        "columns": COLUMNS,
        "conditions": [{"name": name, "runs": runs} for name, runs in rows.items()],
    }
    return {"study": "listening", "seeds_used": list(seeds), "tables": [table]}


def main() -> None:
    """Measure and print."""
    run_study(__doc__, ["listening"], measure_study, table_lines)


if __name__ == "__main__":
    main()
