"""Every figure of docs/results.md, measured anew: `make bench`, or `python -m benchmarks`.

    python -m benchmarks [PART ...] [--seeds 0 1 2] [--keep DIR] [--set KEY=VALUE]... [--render]

Each part is a module of its own in a process of its own, one after another. Its result goes to
benchmarks/results/PART.json, and from there into the page. `--render` measures nothing and only writes the
page. `--seeds` and `--keep` are for the parts that train, `--set` for those that train a preset; with `--set`
nothing is stored, because the figures would not be those of the preset.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from importlib.util import find_spec

from benchmarks.provenance import provenance
from benchmarks.report import RESULTS, render
from games.files import atomic_write

TRAINED = {"pocket": "pocket", "free": "pocket-free", "long": "pocket-long"}  # preset by part
TIMED = {
    "arena": "benchmarks.arena_speed",
    "sampler": "benchmarks.sampler_speed",
    "learner": "benchmarks.learner_speed",
    "growth": "benchmarks.population_growth",
    "dilemma": "benchmarks.dilemma",
    "store": "benchmarks.store_speed",
    "records": "benchmarks.record_store_speed",
    "tabular": "benchmarks.jpsro_tabular",
    "vllm": "benchmarks.vllm_speed",
    "ray": "benchmarks.ray_speed",
}
STUDIED = (
    dict.fromkeys(("baselines", "levels", "policies"), "benchmarks.credit")
    | dict.fromkeys(("kuhn", "leduc", "joint"), "benchmarks.populations")
    | dict.fromkeys(("teams", "decoupled", "alignment"), "benchmarks.teams")
    | dict.fromkeys(("relay", "pair", "judged"), "benchmarks.relay")
)
PARTS = (*TRAINED, *TIMED, *STUDIED)


def main() -> int:
    """Measure the named parts, or all; return 1 if one of them failed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)} (default: all of them)")
    parser.add_argument(
        "--seeds", type=int, nargs="+", help="of the parts that train (default: 0 to 2, of the studies 0 to 4)"
    )
    parser.add_argument("--keep", metavar="DIR", help="keep what is trained in DIR, as PRESET-SEED")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="try a part with other settings"
    )
    parser.add_argument("--render", action="store_true", help="only write the page from the stored results")
    arguments = parser.parse_args()
    if arguments.set and not set(arguments.parts) <= set(TRAINED):
        parser.error(f"--set is for parts that train a preset, which are {', '.join(TRAINED)}; name those.")
    unknown = sorted(set(arguments.parts) - set(PARTS))
    if unknown:
        parser.error(f"there is no part {', '.join(unknown)}; the parts are {', '.join(PARTS)}")
    parts = [] if arguments.render else arguments.parts or PARTS
    possible = [part for part in parts if _is_possible(part)]
    failed = [part for part in parts if part in arguments.parts and part not in possible]
    failed += [part for part in possible if not run(part, arguments)]
    if not arguments.set:
        render()
    if failed:
        print(f"These parts failed, and keep the results that they had: {', '.join(failed)}.", file=sys.stderr)
    return 1 if failed else 0


def run(part: str, arguments: argparse.Namespace) -> bool:
    """Measure one part and store its result; return False if its process failed, after saying so itself."""
    command, private = ["-m", _module(part)], []
    if part in STUDIED:
        command += [part, "--seeds", *map(str, arguments.seeds or range(5))]
        private += ["--keep", arguments.keep] if arguments.keep else []
    if part in TRAINED:
        command += [TRAINED[part], "--seeds", *map(str, arguments.seeds or range(3))]
        private += ["--keep", arguments.keep] if arguments.keep else []
        private += [word for override in arguments.set for word in ("--set", override)]
    shown = " ".join(["python", *command])
    print(f"{part}: {shown}", file=sys.stderr, flush=True)
    origin = provenance()  # as it is when the part begins
    done = subprocess.run([sys.executable, *command, *private, "--json"], stdout=subprocess.PIPE, check=False)
    if done.returncode:
        return False
    found = {"command": shown, **origin, "result": json.loads(done.stdout)}
    if arguments.set:
        print(json.dumps(found, indent=2))
    else:
        atomic_write(RESULTS / f"{part}.json", json.dumps(found, indent=2) + "\n")
    return True


def _is_possible(part: str) -> bool:
    """Return whether what a part measures is installed, after saying so if it is not."""
    if part != "vllm" or find_spec("vllm") is not None:
        return True
    how = "make test-vllm installs it, then .venv-vllm/bin/python -m benchmarks vllm measures."
    print(f"vllm: vLLM is not installed here. {how}", file=sys.stderr)
    return False


def _module(part: str) -> str:
    return (STUDIED | TIMED).get(part, "benchmarks.learning")


if __name__ == "__main__":
    sys.exit(main())
