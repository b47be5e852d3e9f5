"""What stating a prediction of the partner's act before one's own is worth, and whether the act depends on it.

    python -m benchmarks.studies.cooperation.predictions predictions [--seeds 0 1 2 3 4] [--keep DIR] [--json]

Six rounds of OpenSpiel's `matrix_coordination`: both choose left or right at once, and a round in which they choose
alike pays 1. A pocket model learns beside six conventions (`benchmarks.studies.cooperation.conventions`) without being
told which it meets, and then also meets two that it never met. Its card has no slot; a prediction before each act,
above the rounds so far (ProAgent, arXiv 2308.11339); the same, which `shaping.prediction` credits; or the credited one
without the rounds, so that the act knows only the prediction. Beside a prediction's accuracy stand the most frequent
act and the exact Bayesian who sees the same rounds. An act depends on the prediction as far as its probabilities move
(total variation) when the other prediction stands in the prompt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import log
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

import tomli_w

from benchmarks.studies.cooperation.conventions import ACTS, CONVENTIONS, OTHER, foreseen
from benchmarks.studies.runs import Result, load_settings, measure_runs, run_study, table_lines
from games.common import plugins
from games.common.files import atomic_write
from league import RunConfig, make_game, match, open_run
from league.population.players.engines import Engines
from league.population.players.player import resolve
from league.training.evidence.counterfactuals import PromptKey, prompt_key, reply_probabilities
from league.training.evidence.stated import Stated, stated_predictions
from roles.cards import load_roles
from roles.prompts import messages

if TYPE_CHECKING:
    from arena.lm.language_model import LanguageModel
    from arena.records import Episode, Turn
    from roles.role import Role

PLUGIN = "benchmarks.studies.cooperation.conventions"
GAME = "repeated_game(stage_game=matrix_coordination(),num_repetitions=6,recall=6)"
NEVER_MET = ("follow-right", "oppose-left")
MET = tuple(name for name in CONVENTIONS if name not in NEVER_MET)
MATCHES = 100  # with each stranger, in both seats
SLOTS = {"plan": {"rule": "prediction", "choices": list(ACTS)}}
BESIDE = {"prompt": "They: {plan}\n{observation}", "slots": SLOTS}
ALONE = {"prompt": "They: {plan}", "slots": SLOTS}
CREDITED = ("shaping.prediction.weight=1.0",)
CONDITIONS: dict[str, tuple[Mapping[str, Any], tuple[str, ...]]] = {  # by name: what the card adds, and settings
    "without a prediction": ({"prompt": "{observation}"}, ()),
    "prediction": (BESIDE, ()),
    "prediction, credited": (BESIDE, CREDITED),
    "prediction, credited, all that the act is shown": (ALONE, CREDITED),
}
RUN = f"""
plugins = ["{PLUGIN}"]
threads = 1
iterations = 40
snapshot_every = 40
episodes_kept = 0
board.time = 0.0
games."{GAME}" = {{ matches = 128, entropy = 0.1, entropy_end = 0.01 }}
objective = {{ name = "ppo", clip_low = 0.9, clip_high = 9.0, kl_old = 0.2 }}
optimizer = {{ learning_rate = 2e-3, learning_rate_end = 2e-4, inner_steps = 4, minibatch_prompts = 128 }}
model = {{ hidden_size = 64, intermediate_size = 128, vocabulary = 512 }}
evaluation = {{ matches = 0, anchors = [], exact = false }}
[matchmaking]
self_play = 0.0
fictitious = 1.0
opponents = 7
guests = {[f"convention:{name}" for name in MET]}
"""
COLUMNS = {
    "never_met": "with the two never met",
    "nats": "nats of a prediction",
    "obeyed": "acts as predicted",
    "moved": "the act moves by",
}


class Met(NamedTuple):
    """A match with a stranger, and the model's seat."""

    stranger: str
    episode: Episode
    seat: int


def configs(keep: Path) -> dict[str, RunConfig]:
    """Return the configuration of the runs by condition; their cards are written below ``keep``."""
    found = {}
    for name, (changes, overrides) in CONDITIONS.items():
        roles = load_roles(make_game(GAME).spec)
        tables = [{"name": r.name, "seat": r.seat, "system": "Choose as they choose.", **changes} for r in roles]
        folder = keep / "cards" / name.replace(" ", "-").replace(",", "")
        folder.mkdir(parents=True, exist_ok=True)
        atomic_write(folder / "repeated.toml", tomli_w.dumps({"game": GAME, "role": tables}))
        found[name] = load_settings(f'roles.cards = "{folder.resolve()}"\n{RUN}'.replace("'", '"'), overrides)
    return found


def measure(run_dir: Path) -> dict[str, Any]:
    """Return what a run's last snapshot earns a match with strangers, and what its predictions are worth to it."""
    seed, spec = open_run(run_dir).config.seed, make_game(GAME).spec
    met = [
        Met(name, episode, [player.startswith("convention") for player in episode.request.players].index(False))
        for number, name in enumerate(CONVENTIONS)
        for episode in match(
            run_dir, f"convention:{name}", game=GAME, matches=MATCHES, seed=1000 * seed + number
        ).episodes
    ]
    with Engines() as engines:
        player = resolve(str(run_dir), spec, engines)
        ((identity, _),) = player.members[0]
        lm: LanguageModel = player.engine_of(identity).model_of(identity)  # type: ignore[attr-defined]
        return figures_of(met, player.roles, lm)


def figures_of(met: Sequence[Met], roles: Sequence[Role], lm: LanguageModel) -> dict[str, Any]:
    """Return the figures of matches that a model has played with strangers."""
    returns = {
        known: fmean(one.episode.returns[0] for one in met if (one.stranger in MET) is known) for known in (True, False)
    }
    figures: dict[str, Any] = {"figure": returns[True], "never_met": returns[False]}
    stated = [
        (one.episode.turns[made.turn], made)
        for one in met
        if one.stranger in MET
        for made in stated_predictions(roles[one.seat], one.episode)
    ]
    if not stated:
        return figures
    acts = Counter(made.act for _, made in stated)
    return figures | {
        "right": fmean(made.right for _, made in stated if made.right is not None),
        "base": max(acts.values()) / len(stated),
        "bayes": fmean(bayes_right(turn.observation, made) for turn, made in stated),
        "nats": nats(stated, lm),
        "moved": fmean(moved(_acts(met), roles, lm)),
        "obeyed": fmean(float((turn.action or "") in turn.observation.split("\n")[0]) for turn in _acts(met)),
    }


def _acts(met: Sequence[Met]) -> list[Turn]:
    return [turn for one in met for turn in one.episode.turns if turn.seat == one.seat and not turn.tool]


def bayes_right(observation: str, made: Stated) -> float:
    """Return how often the Bayesian's likeliest act is what the other did; equally likely ones are guessed from."""
    belief = foreseen(MET, observation)
    likeliest = [act for act in ACTS if belief[act] == max(belief.values())]
    return (made.act in likeliest) / len(likeliest)


def nats(stated: Sequence[tuple[Turn, Stated]], lm: LanguageModel) -> float:
    """Return the mean of minus the log-probability that the model's prediction gave to what came about."""
    rows = reply_probabilities(lm, [prompt_key(turn) for turn, _ in stated])
    return fmean(-log(rows[prompt_key(turn)][turn.legal.index(made.act or "")]) for turn, made in stated)


def moved(turns: Sequence[Turn], roles: Sequence[Role], lm: LanguageModel) -> list[float]:
    """Return by turn how far the act's probabilities move when the other prediction stands in its prompt."""
    pairs = []
    for turn in turns:
        line, *rest = turn.observation.split("\n")
        said = line.split()[-1]
        own, swapped = (_key(turn, "\n".join([f"They: {act}", *rest]), roles, lm) for act in (said, OTHER[said]))
        if own != prompt_key(turn):
            raise RuntimeError(f"the prompt of {turn.observation!r} is not what was shown")
        pairs.append((own, swapped))
    rows = reply_probabilities(lm, list(dict.fromkeys(key for pair in pairs for key in pair)))
    return [0.5 * sum(abs(a - b) for a, b in zip(rows[own], rows[other], strict=True)) for own, other in pairs]


def _key(turn: Turn, observation: str, roles: Sequence[Role], lm: LanguageModel) -> PromptKey:
    role = roles[turn.seat]
    return PromptKey(lm.encode_prompt(messages(role, observation, turn.legal)), turn.legal, role.temperature)


def measure_study(study: str, seeds: Sequence[int], workers: int, keep: Path) -> Result:
    """Measure all runs that are not in ``keep`` yet; return the tables."""
    plugins.allow([PLUGIN])
    keep.mkdir(parents=True, exist_ok=True)
    figures = measure_runs(configs(keep), seeds, measure, keep, workers)
    by_name = {name: [figures[name, seed] for seed in seeds] for name in CONDITIONS}
    rows = [{"name": name, "runs": runs} for name, runs in by_name.items()]
    predicting = {name: runs for name, runs in by_name.items() if "right" in runs[0]}
    shares = [
        {"name": f"{name}: {label}", "runs": [{"figure": run[key]} for run in runs]}
        for name, runs in predicting.items()
        for key, label in (("base", "the most frequent act"), ("right", "as stated"), ("bayes", "exact Bayesian"))
    ]
    told = {"game": "repeated matrix_coordination", "less_is_better": False, "places": 3}
    return {
        "study": study,
        "seeds_used": list(seeds),
        "tables": [
            {
                **told,
                "figure": "mean return a match of 6 with the six conventions",
                "columns": COLUMNS,
                "conditions": rows,
            },
            {**told, "figure": "share of predictions that came true", "columns": {}, "conditions": shares},
        ],
    }


def main() -> None:
    """Measure and print."""
    run_study(__doc__, ["predictions"], measure_study, table_lines)


if __name__ == "__main__":
    main()
