"""The parsers of the commands that train populations."""

from __future__ import annotations

from typing import Any

from league.cli.parser import COUNT, SEED, Parser, add_allow_host, add_command, add_json_option, whole_number


def _add_train(subparsers: Any) -> None:
    parser = add_command(subparsers, "train", "train a league by self-play, or resume a run")
    parser.add_argument("config", nargs="?", metavar="PRESET|FILE.toml", help="what to train (default: pocket)")
    parser.add_argument(
        "--game",
        action="append",
        default=[],
        metavar="GAME",
        help="train this game in place of the preset's, with matches that fit its length; may be given several times",
    )
    parser.add_argument("--run-dir", metavar="DIR", help="where the run is kept (default: a new folder under runs/)")
    parser.add_argument("--seed", type=SEED, metavar="N", help="every stream of randomness derives from it")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="change one setting; may be given several times"
    )
    parser.add_argument("--resume", action="store_true", help="continue where an interrupted run stopped")
    parser.add_argument(
        "--from",
        dest="from_iteration",
        type=int,
        metavar="N",
        help="with --resume: go back to the state that was saved after iteration N, as where a newer one is damaged",
    )
    parser.add_argument(
        "--cluster",
        metavar="ADDRESS",
        help="play on a Ray cluster: HOST:PORT, auto (the one of this machine), or local (start one here)",
    )


def _add_serve_seats(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "serve-seats",
        "train a run in which programs take the turns of roles through OpenAI's chat-completions API",
        notes="league docs programs tells what a program asks. A run that has been begun goes on.",
    )
    parser.add_argument("run", metavar="RUN|PRESET|FILE.toml", help="a run to go on with, or what to train anew")
    parser.add_argument(
        "--role",
        action="append",
        default=[],
        metavar="GAME/ROLE",
        help="a role whose turns programs take; may be given several times (default: programs.roles)",
    )
    parser.add_argument(
        "--host", metavar="ADDRESS", help="where it listens; 0.0.0.0: to everybody on the network (default: the run's)"
    )
    parser.add_argument(
        "--port", type=whole_number(0, 65_535), metavar="N", help="0 takes any free port (default: the run's)"
    )
    add_allow_host(parser)
    parser.add_argument("--run-dir", metavar="DIR", help="where a new run is kept (default: a new folder under runs/)")
    parser.add_argument("--seed", type=SEED, metavar="N", help="of a new run: every stream of randomness")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="of a new run: change one setting"
    )


def _add_evolve(subparsers: Any) -> None:
    parser = add_command(subparsers, "evolve", "continue a run's population under new settings, in a new run")
    parser.add_argument("run", metavar="RUN")
    parser.add_argument(
        "--iterations", type=COUNT, metavar="N", help="how many more (default: as many as RUN has done)"
    )
    parser.add_argument(
        "--run-dir", metavar="DIR", help="where the new run is kept (default: a new folder under runs/)"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="change one setting; may be given several times"
    )


def _add_teaching_options(parser: Parser, setting: str) -> None:
    """Add where a taught model is kept, what fixes it, and settings for the command alone, such as ``setting``."""
    parser.add_argument(
        "-o", "--out", required=True, metavar="DIR", help="where the model is kept, as a run of its own"
    )
    parser.add_argument("--seed", type=SEED, metavar="N", help="fixes what is drawn (default: the run's)")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help=f"change a setting for this command, such as {setting}; may be given several times",
    )
    add_json_option(parser)


def _add_distil(subparsers: Any) -> None:
    parser = add_command(subparsers, "distil", "make one model that plays as a run's mixture does on average")
    parser.add_argument("source", metavar="RUN@mixture", help="the mixture of a run's snapshots")
    _add_teaching_options(parser, "distil.steps")


def _add_latent(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "latent",
        "cluster what a run's players say, solve the game between clusters, and teach it (LSPO)",
        notes="The tables [latent] and [distil] say how: league settings latent. It is for games of two seats, one of "
        "which\nwins what the other loses.",
    )
    parser.add_argument("source", metavar="RUN", help="a run's newest snapshot, RUN@SNAPSHOT or RUN@mixture")
    parser.add_argument("--game", metavar="GAME", help="which of the run's games, where it has several")
    _add_teaching_options(parser, "latent.clusters")


def _add_breed(subparsers: Any) -> None:
    parser = add_command(
        subparsers, "breed", "breed a population of runs: settings that mutate, weights that are merged or crossed"
    )
    parser.add_argument(
        "config", nargs="?", metavar="PRESET|FILE.toml", help="what to breed; its table [descent] says how"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="change one setting; may be given several times"
    )
    parser.add_argument(
        "--run-dir", metavar="DIR", help="where the population is kept (default: a new folder under bred/)"
    )
    parser.add_argument("--resume", action="store_true", help="go on with the population in --run-dir")
    add_json_option(parser)


def _add_models(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "models",
        "list the pretrained models that can be had without a key, or fetch one",
        notes="A model is fetched once, and kept in the folder that LEAGUE_HOME names, else where this platform keeps\n"
        "caches.",
    )
    parser.add_argument("action", nargs="?", choices=["get"], metavar="get", help="fetch the model NAME")
    parser.add_argument("name", nargs="?", metavar="NAME", help="a model of the list")
    add_json_option(parser)


def _add_sweep(subparsers: Any) -> None:
    parser = add_command(
        subparsers, "sweep", "train a preset under several seeds and settings, and compare them in one table"
    )
    parser.add_argument("config", nargs="?", metavar="PRESET|FILE.toml", help="what to train")
    parser.add_argument("--seeds", metavar="N-M", help="0-4, or 0,2,7 (default: 0-4)")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=V1,V2",
        help="change a setting, or compare several values of it; of several such settings every combination",
    )
    parser.add_argument(
        "--condition",
        action="append",
        default=[],
        nargs="+",
        metavar=("NAME", "KEY=VALUE"),
        help="compare settings that belong together under a name; may be given several times, with any settings",
    )
    _add_ends(parser)
    _add_places(parser)


def _add_places(parser: Parser) -> None:
    """Add where runs are kept and by what they are trained."""
    parser.add_argument(
        "--run-dir", metavar="DIR", help="where the runs are kept (default: a new folder under sweeps/)"
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on with the sweep in --run-dir, with further runs where they are named, and print its table",
    )
    parser.add_argument(
        "--workers",
        type=whole_number(1, 1024),
        default=0,
        metavar="N",
        help="train N runs side by side on this machine, each in a process of its own with its share of the cores",
    )
    parser.add_argument(
        "--cluster",
        metavar="ADDRESS",
        help="train runs side by side on a Ray cluster: HOST:PORT, auto (the one of this machine), or local (here)",
    )


def _add_ends(parser: Parser) -> None:
    """Add when a run of a sweep ends, and what is asked about it then."""
    parser.add_argument(
        "--tokens",
        type=COUNT,
        metavar="N",
        help="end each run at its first snapshot after N generated tokens, and compare at these; its iterations are "
        "then the most that it may take",
    )
    parser.add_argument(
        "--ask",
        action="append",
        default=[],
        metavar="COMMAND",
        help="a command of league that is asked about each trained run, which RUN stands for; its figures join the "
        "table",
    )


def _add_push(subparsers: Any) -> None:
    parser = add_command(subparsers, "push", "send a snapshot to the Hugging Face hub, with a model card")
    parser.add_argument("snapshot", metavar="RUN@SNAPSHOT", help="a run's newest snapshot, or the one that is named")
    parser.add_argument("name", metavar="ORG/NAME", help="what it is called on the hub")
    parser.add_argument("--dry-run", action="store_true", help="show every file, and send nothing")
    parser.add_argument("--out", metavar="DIR", help="keep the folder there too")
    parser.add_argument("--public", action="store_true", help="for everybody to see (default: private)")


TRAINING = {
    "train": _add_train,
    "sweep": _add_sweep,
    "serve-seats": _add_serve_seats,
    "evolve": _add_evolve,
    "distil": _add_distil,
    "latent": _add_latent,
    "breed": _add_breed,
    "models": _add_models,
    "push": _add_push,
}
