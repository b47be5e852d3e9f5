"""What rewritten contexts keep: a planted fact, and who one plays against.

    python -m benchmarks.studies.language.contexts contexts [--seeds 0 1 2 3 4] [--keep DIR] [--workers 1] [--json]

``contexts``: in ``recall(turns=4)`` a word of the first turn is asked for in the last. A pocket model plays with a
window of one entry, or writes a summary after two entries, one of four texts, which is a turn that is trained like any
other; ``recall(turns=2)``, where nothing is cut off, teaches both to name a word that they see. A player that copies
what it reads writes the scripted summary.

``contexts-kuhn``: many hands of ``repeated_kuhn_poker`` against one of six types, each equally often. A pocket model is
trained on ten hands with a window, or with the window and a text of one of four words that it writes after each
two hands, and is tried on fifty. Beside it stand the fixed equilibrium, a Bayesian that plays the best response
of each hand to its exact belief about type and card, and the best response to each type, told who it is.

``contexts-smol``: the planted fact with SmolLM2-135M as it comes, not trained.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from math import log, log2
from pathlib import Path
from statistics import fmean
from typing import Any

import tomli_w

from arena.records import Episode, MatchRequest, Reply, ReplyRequest, Sampler
from arena.samplers.torch_lm import TorchLM
from arena.scheduler import play
from arena.submatches import play_again
from benchmarks.studies.language.kuhn_types import TYPES, Bayesian, TypePlayer
from benchmarks.studies.runs import Result, load_settings, measure_runs, run_study, table_lines
from games.common.files import atomic_write
from games.native.repeated_kuhn import RepeatedKuhn
from league import RunConfig, make_game, match, open_run
from league.population.models.source import model_folder
from league.training.board.metrics_log import read_metrics
from roles.cards import load_roles
from roles.role import Role
from roles.slots import filling

WORDS = ("red", "blue", "green", "gold")
PROMPT = "{earlier}\n{observation}\nLegal: {legal}"
RECALL, SHORT = "recall(turns=4)", "recall(turns=2)"
WINDOW = {"rule": "window", "entries": 1}
SUMMARY = {"rule": "summary", "entries": 1, "choices": [f"keep {word}" for word in WORDS]}
FACT = {"window": {"earlier": WINDOW}, "trained summary": {"earlier": SUMMARY}}
MATCHES, SMOL_MATCHES = 1_000, 60

TRAINED, TRIED = "repeated_kuhn_poker(hands=10)", "repeated_kuhn_poker(hands=50)"
NOTES = {"rule": "summary", "entries": 2, "choices": ["calls", "folds", "bluffs", "unclear"]}
KNOWN = {"window": {"earlier": {"rule": "window", "entries": 2}}, "trained notes": {"earlier": NOTES}}
HANDS = ("1 to 5", "6 to 10", "11 to 25", "26 to 50")
PER_TYPE = {"model": 24, "reference": 240}  # matches of 50 hands against each type

COMMON = """
threads = 1
episodes_kept = 0
board.time = 0.0
evaluation = { matches = 0, anchors = [], exact = false }
objective = { name = "ppo", clip_low = 0.9, clip_high = 9.0, kl_old = 0.2 }
optimizer = { learning_rate = 2e-3, learning_rate_end = 2e-4, inner_steps = 4, minibatch_prompts = 128 }
"""
FACT_RUN = """
iterations = 40
snapshot_every = 40
games."recall(turns=4)" = { matches = 256, entropy = 0.05, entropy_end = 0.005 }
games."recall(turns=2)" = { matches = 128, entropy = 0.05, entropy_end = 0.005 }
"""
KNOWN_RUN = """
iterations = 40
snapshot_every = 40
games."repeated_kuhn_poker(hands=10)" = { matches = 64, entropy = 0.05, entropy_end = 0.01 }
[matchmaking]
self_play = 0.0
fictitious = 1.0
opponents = 7
"""


def card_folder(keep: Path, study: str, name: str, slots: Mapping[str, Any]) -> Path:
    """Write the cards of a condition, and return their folder."""
    game = "recall" if study == "contexts" else "repeated_kuhn_poker"
    roles = load_roles(make_game(RECALL if study == "contexts" else TRIED).spec)
    tables = [{"name": r.name, "seat": r.seat, "system": r.system, "prompt": PROMPT, "slots": slots} for r in roles]
    folder = keep / "cards" / name.replace(" ", "-")
    folder.mkdir(parents=True, exist_ok=True)
    atomic_write(folder / f"{game}.toml", tomli_w.dumps({"game": game, "role": tables}))
    return folder.resolve()


def configs(study: str, keep: Path) -> dict[str, RunConfig]:
    """Return the configuration of the runs by condition."""
    conditions, run = (FACT, FACT_RUN) if study == "contexts" else (KNOWN, KNOWN_RUN)
    guests = f"guests = {list(TYPES)}\n" if study != "contexts" else ""
    found = {}
    for name, slots in conditions.items():
        folder = card_folder(keep, study, name, slots)
        found[name] = load_settings(f'roles.cards = "{folder}"\n{COMMON}{run}{guests}'.replace("'", '"'))
    return found


def measure_fact(run_dir: Path) -> dict[str, Any]:
    """Return how often a run's last snapshot names the word, and what its prompts cost at the end of the run."""
    seed = open_run(run_dir).config.seed
    played = match(run_dir, "random", game=RECALL, matches=2 * MATCHES, seed=1000 + seed).episodes
    own = [episode for episode in played if episode.request.players[0] != "random"]
    figures = {"figure": fmean(episode.returns[0] for episode in own)}
    if any(turn.tool for turn in own[0].turns):
        figures["named"] = fmean(map(_names_the_word, own))
    return {**figures, **_costs(run_dir, f"{RECALL}/player")}


def _names_the_word(episode: Episode) -> bool:
    """Return whether a match's summary names the word, and not by a code of its own."""
    word = episode.turns[0].observation.rpartition(" ")[2]
    return next((turn.action or "").endswith(word) for turn in episode.turns if turn.tool)


def measure_known(run_dir: Path) -> dict[str, Any]:
    """Return the chips a hand that a run's last snapshot wins from the types, by hand number, and its prompts' cost."""
    seed, won = open_run(run_dir).config.seed, list[list[float]]()
    notes = list[tuple[str, str]]()  # (type, note)
    for number, kind in enumerate(TYPES):
        played = match(run_dir, kind, game=TRIED, matches=PER_TYPE["model"], seed=1000 * seed + number).episodes
        won += [_by_hand(episode, int(episode.request.players[0] == kind)) for episode in played]
        notes += [(kind, turn.action or "") for episode in played for turn in episode.turns if turn.tool]
    told = {"told": _information(notes)} if notes else {}
    return {**_chips(won), **told, **_costs(run_dir, f"{TRAINED}/player_1")}


def _information(pairs: Sequence[tuple[str, str]]) -> float:
    """Return the mutual information of the two sides of pairs, in bits, less its bias (Miller and Madow)."""
    both, total = Counter(pairs), len(pairs)
    left, right = Counter(kind for kind, _ in pairs), Counter(note for _, note in pairs)
    plain = sum(n / total * log2(n * total / (left[kind] * right[note])) for (kind, note), n in both.items())
    return plain - (len(left) - 1) * (len(right) - 1) / (2 * total * log(2))


def _costs(run_dir: Path, role: str) -> dict[str, float]:
    last = [*read_metrics(run_dir)][-1]
    return {name: last[f"{role}/context/{name}"] for name in ("tokens", "kept", "texts")}


def _by_hand(episode: Episode, seat: int) -> list[float]:
    """Return the chips that a seat won in each hand."""
    game = make_game(episode.request.game)
    play_again(game, episode)
    assert isinstance(game, RepeatedKuhn)
    return [float(chips) for chips in game.won_by_hand(seat)]


def _chips(won: Sequence[Sequence[float]]) -> dict[str, float]:
    ends = [re.findall(r"\d+", span) for span in HANDS]
    spans = {name: (int(first) - 1, int(last)) for name, (first, last) in zip(HANDS, ends, strict=True)}
    means = {name: fmean(fmean(hands[a:b]) for hands in won) for name, (a, b) in spans.items()}
    return {"figure": fmean(map(fmean, won)), **means}


class Copier:
    """Writes and says what it reads of the word to keep, and guesses where it reads nothing."""

    def sample(self, requests: Sequence[ReplyRequest]) -> list[Reply]:
        """Return one reply for each request."""
        return [Reply(self._reply(request)) for request in requests]

    def _reply(self, request: ReplyRequest) -> str:
        kept = re.search(r"keep (\w+)", request.observation)
        named = [text for text in request.legal if kept and text.endswith(kept[1])]
        return named[0] if named else request.rng.choice(request.legal)


def copied(slots: Mapping[str, Any], seed: int) -> float:
    """Return how often the copier names the word with these slots."""
    [role] = load_roles(make_game(RECALL).spec)
    card = Role(**{**dict(role), "prompt": PROMPT, "slots": tuple(filling(*one) for one in slots.items())})
    requests = [MatchRequest(i, RECALL, 10_000 * seed + i, i, ("copier",), (False,)) for i in range(MATCHES)]
    copier = Copier()
    played = play(requests, roles_of=lambda _: (card,), engine_of=lambda _: copier, make_game=make_game)
    return fmean(episode.returns[0] for episode in played)


def pretrained(seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Return a condition for each way to show SmolLM2 the past, with a run for each seed."""
    engine = TorchLM()
    engine.register("smol", model_folder("smollm2-135m"))
    [role] = load_roles(make_game(RECALL).spec, wording="full")
    shown: dict[str, Mapping[str, Any]] = {"window": FACT["window"], "summary by itself": FACT["trained summary"]}
    conditions = []
    for name, slots in (shown | {"all shown": {"earlier": {"rule": "window", "entries": 9}}}).items():
        filled = tuple(filling(*one) for one in slots.items())
        card = Role(**{**dict(role), "prompt": "{earlier}\n{observation}", "slots": filled})
        runs = []
        for seed in seeds:
            numbers = [10_000 * seed + i for i in range(SMOL_MATCHES)]
            requests = [MatchRequest(i, RECALL, i, i, ("smol",), (False,)) for i in numbers]
            played = play(requests, roles_of=partial(_one, card), engine_of=lambda _: engine, make_game=make_game)
            runs.append({"figure": fmean(episode.returns[0] for episode in played)})
        conditions.append({"name": name, "runs": runs})
    return conditions


def _one(card: Role, _game: str) -> tuple[Role, ...]:
    return (card,)


def referenced(name: str, seed: int) -> dict[str, float]:
    """Return the chips a hand of a player that is not trained, by hand number."""
    roles, won = load_roles(make_game(TRIED).spec), list[list[float]]()
    for number, kind in enumerate(TYPES):
        players: dict[str, Sampler] = {"equilibrium": TypePlayer("scripted:good"), "Bayesian": Bayesian()}
        engines: dict[str, Sampler] = {"it": players.get(name) or Bayesian(known=kind), "type": TypePlayer(kind)}
        matches = PER_TYPE["reference"] // len(TYPES)
        requests = [
            MatchRequest(i, TRIED, rng.getrandbits(40), rng.getrandbits(40), players, (False, False))
            for i in range(matches)
            for rng in [random.Random(f"{seed}/{number}/{i}")]
            for players in [("it", "type") if i % 2 else ("type", "it")]
        ]
        played = play(requests, roles_of=lambda _: roles, engine_of=engines.__getitem__, make_game=make_game)
        won += [_by_hand(episode, episode.request.players.index("it")) for episode in played]
    return _chips(won)


def measure_study(study: str, seeds: Sequence[int], workers: int, keep: Path) -> Result:
    """Measure all runs that are not in ``keep`` yet; return the table."""
    if study == "contexts-smol":
        return {"study": study, "seeds_used": list(seeds), "tables": [_of_fact("SmolLM2-135M", pretrained(seeds))]}
    fact, runs = study == "contexts", configs(study, keep)
    figures = measure_runs(runs, seeds, measure_fact if fact else measure_known, keep, workers)
    conditions = [{"name": name, "runs": [figures[name, seed] for seed in seeds]} for name in runs]
    costs = {"tokens": "tokens of a prompt", "kept": "share that a prefix cache keeps", "texts": "texts a match"}
    if fact:
        scripted = [{"figure": copied({"earlier": SUMMARY}, seed)} for seed in seeds]
        conditions.append({"name": "scripted summary", "runs": scripted})
    else:
        names = ("equilibrium", "Bayesian", "told who it is")
        conditions += [{"name": name, "runs": [referenced(name, seed) for seed in seeds]} for name in names]
    table = {
        "game": RECALL if fact else f"{TRIED} against six types",
        "figure": "share of matches in which the word is named" if fact else "chips a hand",
        "less_is_better": False,
        "places": 3,
        "columns": {"named": "summaries that name it"} | costs
        if fact
        else {hands: f"hands {hands}" for hands in HANDS} | {"told": "bits that a note tells of the type"} | costs,
        "conditions": conditions,
    }
    return {"study": study, "seeds_used": list(seeds), "tables": [table]}


def _of_fact(player: str, conditions: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the table of a player in the game of the planted fact."""
    figure = "share of matches in which the word is named"
    told = {"game": f"{RECALL}, {player}", "figure": figure, "less_is_better": False, "places": 3}
    return told | {"columns": {}, "conditions": conditions}


def main() -> None:
    """Measure and print."""
    run_study(__doc__, ["contexts", "contexts-kuhn", "contexts-smol"], measure_study, table_lines)


if __name__ == "__main__":
    main()
