"""Measures every figure of benchmarks/results again: `make bench`, or `python -m benchmarks`.

    python -m benchmarks [PART ...] [--seeds 0 1 2] [--keep DIR] [--set KEY=VALUE]... [--render]

Each part runs in its own process, one after another. Its result goes to benchmarks/results/PART.json, and from
there into the page that shows it. `--render` measures nothing and only writes the pages. `--seeds` and `--keep` are
for the parts that train, `--set` for those that train a preset; with `--set` nothing is stored, because the figures
would not be those of the preset. What a GPU is wanted for is one command: `python -m benchmarks gpu --help`. Whether
the project has become slower is another: `python -m benchmarks guard --help`.
How much of many GPUs would be used is a simulation: `python -m benchmarks scale --help`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

from benchmarks.gpu import command as gpu
from benchmarks.guard import command as guard
from benchmarks.report.page import RESULTS, render
from benchmarks.report.provenance import provenance
from benchmarks.simulations import scale
from games.common.files import atomic_write

PRESETS = {  # by part
    "pocket": "pocket",
    "returns": "pocket-returns",
    "free": "pocket-free",
    "long": "pocket-long",
    "smol": "smol",
    "smol-free": "smol-free",
}
MODULES = {  # of parts that need no arguments
    "arena": "benchmarks.speed.arena",
    "sampler": "benchmarks.speed.sampler",
    "learner": "benchmarks.speed.learner",
    "pretrained": "benchmarks.speed.pretrained",
    "growth": "benchmarks.speed.population_growth",
    "dilemma": "benchmarks.studies.cooperation.dilemma",
    "store": "benchmarks.speed.match_store",
    "report": "benchmarks.speed.long_run",
    "board": "benchmarks.speed.board_cost",
    "records": "benchmarks.speed.record_store",
    "tabular": "benchmarks.simulations.jpsro_tabular",
    "settling": "benchmarks.simulations.settling",
    "solvers": "benchmarks.simulations.openspiel_solvers",
    "until": "benchmarks.simulations.until_decided",
    "defence": "benchmarks.simulations.defence_tabular",
    "injections": "benchmarks.studies.language.injections",
    "textarena": "benchmarks.simulations.textarena_entries",
    "vllm": "benchmarks.speed.vllm_engine",
    "ray": "benchmarks.speed.ray_cluster",
    "large_games": "benchmarks.speed.large_games",
    "dark_boards": "benchmarks.speed.dark_boards",
    "large_models": "benchmarks.speed.large_models",
}
STUDIES = (  # modules of parts that need the part's name and seeds
    dict.fromkeys(("baselines", "levels", "policies"), "benchmarks.studies.credit.rules")
    | dict.fromkeys(("kuhn", "leduc", "joint"), "benchmarks.studies.self_play.populations")
    | dict.fromkeys(("teams", "decoupled", "alignment"), "benchmarks.studies.teams")
    | dict.fromkeys(("relay", "pair", "judged"), "benchmarks.studies.relay")
    | dict.fromkeys(
        ("settle-kuhn", "settle-leduc", "settle-goofspiel", "settle-dice", "settle-kuhn3", "settle-hex"),
        "benchmarks.studies.self_play.settling",
    )
    | dict.fromkeys(("transfer", "language"), "benchmarks.studies.language.transfer")
    | {"wordings": "benchmarks.studies.language.wordings", "words": "benchmarks.studies.language.words"}
    | dict.fromkeys(
        ("learned_values", "which_rule", "which_rule_groups", "mars_levels"), "benchmarks.simulations.credit_rules"
    )
    | dict.fromkeys(("mars", "spiral", "smol_spiral"), "benchmarks.studies.suites")
    | dict.fromkeys(("verdicts-team", "verdicts-relay"), "benchmarks.studies.verdicts")
    | {"brevity": "benchmarks.studies.language.brevity", "debate": "benchmarks.studies.language.debate"}
    | {"talk": "benchmarks.studies.language.talk", "microscope": "benchmarks.studies.credit.microscope"}
    | {"public_goods": "benchmarks.studies.cooperation.public_goods", "beliefs": "benchmarks.studies.beliefs"}
    | {"opponents": "benchmarks.studies.opponents", "listening": "benchmarks.studies.language.listening"}
    | {"sighted_critic": "benchmarks.studies.credit.sighted_critic"}
    | {"whole_matches": "benchmarks.studies.credit.whole_matches"}
    | dict.fromkeys(("collapse-kuhn", "collapse-tic-tac-toe", "collapse-smol"), "benchmarks.studies.self_play.collapse")
    | dict.fromkeys(
        (
            *("samples-leduc", "samples-goofspiel", "samples-hex", "samples-dice"),
            *("samples-goofspiel5", "samples-dice6", "samples-dice2x3"),
            *("equal-leduc", "equal-goofspiel", "equal-hex", "equal-dice"),
        ),
        "benchmarks.studies.self_play.from_samples",
    )
    | dict.fromkeys(("timescales", "equal_steps"), "benchmarks.studies.defence")
    | {"starts": "benchmarks.studies.tasks.sums", "starts_programs": "benchmarks.studies.tasks.programs"}
    | {"inject_repair": "benchmarks.studies.tasks.repairs", "curriculum": "benchmarks.studies.self_play.curriculum"}
    | {"generations": "benchmarks.studies.self_play.generations"}
    | dict.fromkeys(("distilling", "breeding"), "benchmarks.studies.self_play.one_model")
    | dict.fromkeys(("contexts", "contexts-kuhn", "contexts-smol"), "benchmarks.studies.language.contexts")
    | dict.fromkeys(("retries-sums", "retries-find_number"), "benchmarks.studies.language.retries")
    | {"lspo": "benchmarks.studies.language.lspo"}
    | dict.fromkeys(
        ("selection-kuhn", "selection-smol", "selection-sums", "selection-programs", "selection-find_number"),
        "benchmarks.studies.selection",
    )
    | dict.fromkeys(("flow-use", "flow-time"), "benchmarks.studies.flow")
    | dict.fromkeys(("taught-kuhn", "taught-leduc", "taught-mixture"), "benchmarks.studies.teachers.distilled")
    | dict.fromkeys(
        ("partners", "partners-newest", "partners-half", "partners-exact", "partners-hanabi"),
        "benchmarks.studies.cooperation.partners",
    )
    | {"predictions": "benchmarks.studies.cooperation.predictions"}
    | {"strangers": "benchmarks.studies.cooperation.strangers"}
    | {"focal_points": "benchmarks.studies.cooperation.focal_points"}
    | dict.fromkeys(("sighted-kuhn", "sighted-leduc"), "benchmarks.studies.teachers.sighted")
)
PARTS = (*PRESETS, *MODULES, *STUDIES)
NEEDS = {  # libraries of other systems that parts measure, and what installs them
    "arena": (("textarena",), "make bench"),
    "textarena": (("textarena",), "make bench"),
    "learner": (("trl", "datasets"), "make bench"),
    "vllm": (("vllm",), "make test-vllm"),
}
PLACES = {"make bench": ".venv-bench", "make test-vllm": ".venv-vllm"}  # where these install them


def main() -> int:
    """Measure the named parts, or all; return 1 if one of them failed. What cannot run says so first."""
    if sys.argv[1:2] == ["gpu"]:  # a command of its own, which is cut off and still has its figures
        return gpu.main(sys.argv[2:])
    if sys.argv[1:2] == ["guard"]:
        return guard.main(sys.argv[2:])
    if sys.argv[1:2] == ["scale"]:  # a simulation: there is no result to store
        scale.measure(sys.argv[2:])
        return 0
    arguments = _parse_arguments()
    parts = [] if arguments.render else arguments.parts or PARTS
    possible = [part for part in parts if _is_possible(part)]
    failed = [part for part in parts if part in arguments.parts and part not in possible]
    failed += [part for part in possible if not run(part, arguments)]
    if not arguments.set and (possible or arguments.render):
        render()
        gpu.render()
    if failed:
        print(f"These parts failed, so their stored results are unchanged: {', '.join(failed)}.", file=sys.stderr)
    return 1 if failed else 0


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)} (default: all of them)")
    parser.add_argument(
        "--seeds", type=int, nargs="+", help="of the parts that train (default: 0 to 2, of the studies 0 to 4)"
    )
    parser.add_argument(
        "--keep", metavar="DIR", help="keep the runs in DIR, a folder for each part, and go on with them"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="try a part with other settings"
    )
    parser.add_argument("--render", action="store_true", help="only write the pages from the stored results")
    arguments = parser.parse_args()
    if arguments.set and not set(arguments.parts) <= set(PRESETS):
        parser.error(f"--set is for parts that train a preset, which are {', '.join(PRESETS)}; name those.")
    unknown = sorted(set(arguments.parts) - set(PARTS))
    if unknown:
        parser.error(f"there is no part {', '.join(unknown)}; the parts are {', '.join(PARTS)}")
    return arguments


def run(part: str, arguments: argparse.Namespace) -> bool:
    """Measure one part and store its result; return False if its process failed, which prints its own error."""
    seeds = [] if part in MODULES else ["--seeds", *map(str, arguments.seeds or range(5 if part in STUDIES else 3))]
    shown = " ".join(["python -m benchmarks", part, *seeds])  # what is stored; the rest changes no figure
    print(f"{part}: {shown}", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", (STUDIES | MODULES).get(part, "benchmarks.studies.presets")]
    if part not in MODULES:
        command += [PRESETS.get(part, part), *seeds]
        command += ["--keep", arguments.keep] if arguments.keep else []
    if part in PRESETS:
        command += [word for override in arguments.set for word in ("--set", override)]
    origin = provenance()  # as it is when the part begins
    process = subprocess.run([*command, "--json"], stdout=subprocess.PIPE, check=False)
    if process.returncode:
        return False
    stored = json.dumps({"command": shown, **origin, "result": _document(process.stdout)}, indent=2)
    if arguments.set:
        print(stored)
    else:
        atomic_write(RESULTS / f"{part}.json", stored + "\n")
    return True


def _document(printed: bytes) -> Any:
    """Return the JSON document among what a part has printed: a library may log to the same place (vLLM does)."""
    [line] = [line for line in printed.splitlines() if line.startswith(b"{")][-1:] or [printed]
    return json.loads(line)


def _is_possible(part: str) -> bool:
    """Return whether the system that a part measures is installed; print how to install it if it is not."""
    libraries, command = NEEDS.get(part, ((), ""))
    missing = [library for library in libraries if find_spec(library) is None]
    if missing:
        place = PLACES[command]
        print(
            f"{part} cannot be measured here: {' and '.join(missing)} not installed. {command} installs into {place}, "
            f"a place of its own; then {place}/bin/python -m benchmarks {part} measures.",
            file=sys.stderr,
        )
    return not missing


if __name__ == "__main__":
    sys.exit(main())
