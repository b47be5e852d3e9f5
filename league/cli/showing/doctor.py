"""``league doctor``: what this machine has for the league, what is wrong, and how to fix it."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import league
from league.cli.formatting import plain_table
from league.cli.parser import Parser, add_json_option

if TYPE_CHECKING:
    from rich.console import Console

    from league.population.players.model_engine import EnginePackage

EXAMPLES = ("", "--json")
OLDEST_PYTHON = (3, 11)
ENOUGH_DISK = 2 * 2**30  # bytes: a run of a pocket model takes some tens of MiB, one of a real model GiB
FEATURES = ("avx2", "avx512f", "avx512_bf16", "amx_bf16", "asimd", "sve", "bf16")  # of processors; PyTorch uses them
State = Literal["ok", "missing", "wrong"]


def add_arguments(parser: Parser) -> None:
    """Add what the command is given."""
    add_json_option(parser)


class Check(NamedTuple):
    """The result of one check of the machine."""

    name: str
    state: State  # missing: something optional; wrong: something that runs need
    found: str
    do: str = ""  # what to type, or to change


def run(_: argparse.Namespace) -> list[Check]:
    """Look at everything."""
    looks: list[Callable[[], Iterator[Check]]] = [_python, _packages, _names, _torch, _extras, _places, _plugins]
    return [check for look in looks for check in look()]


def to_json(report: Sequence[Check]) -> dict[str, Any]:
    """Return the checks as JSON data; ``ok`` is whether nothing is wrong."""
    return {"ok": all(check.state != "wrong" for check in report), "checks": [check._asdict() for check in report]}


def print_report(report: Sequence[Check], console: Console) -> None:
    """Print a line for each check, and what to do about those that are not ok."""
    table = plain_table("", "", "")
    for column in table.columns:
        column.no_wrap = False  # problems are printed whole
    table.show_header = False
    for check in report:
        table.add_row({"ok": "ok", "missing": "–", "wrong": "WRONG"}[check.state], check.name, check.found)
    console.print(table)
    for state, head in (("wrong", "To fix:"), ("missing", "Optional:")):
        todo = [check for check in report if check.state == state and check.do]
        if todo:
            console.print(f"\n{head}")
        for check in todo:
            console.print(f"  {check.name}: {check.do}", markup=False)
    if all(check.state != "wrong" for check in report):
        console.print("\nNothing is wrong. To begin: league train pocket")


def _python() -> Iterator[Check]:
    text = f"{platform.python_version()} at {sys.executable}"
    fine = sys.version_info >= OLDEST_PYTHON
    yield Check("Python", "ok" if fine else "wrong", text, "" if fine else "Install Python 3.11 or newer.")


def _packages() -> Iterator[Check]:
    """Check the packages that the league is installed with; nothing is imported."""
    try:
        needed = [text for text in requires("llm-league") or [] if "extra ==" not in text]
    except PackageNotFoundError:
        yield Check("league", "missing", "runs from its folder; it is not installed", "pip install -e .")
        return
    yield Check("league", "ok", version("llm-league"))
    for text in needed:
        name = text.partition(";")[0].partition(">")[0].partition("=")[0].partition("[")[0].strip()
        try:
            version(name)
        except PackageNotFoundError:
            yield Check(name, "wrong", "not installed", f"pip install '{text}'")


def _names() -> Iterator[Check]:
    """Look for files in this folder that would be imported instead of the league's own packages."""
    folder = Path.cwd()
    if folder.samefile(Path(league.__file__).parents[1]):
        return
    for name in league.OTHERS:
        for path in (folder / name / "__init__.py", folder / f"{name}.py"):
            if path.is_file():
                hiding = path.parent if path.stem == "__init__" else path
                sentence = (
                    f"{hiding} has the name of one of league's packages, and hides it from programs in this folder"
                )
                yield Check(
                    name, "wrong", sentence, "Rename it, or keep programs that import league in another folder."
                )


def _torch() -> Iterator[Check]:
    from league.population.players.machine import cores

    if find_spec("torch") is None:
        yield Check("PyTorch", "wrong", "not installed", "pip install torch")
        return
    import torch  # slow to import

    threads = torch.get_num_threads()
    set_by = f", set by OMP_NUM_THREADS={os.environ['OMP_NUM_THREADS']}" if "OMP_NUM_THREADS" in os.environ else ""
    yield Check("PyTorch", "ok", f"{torch.__version__}, {threads} threads on {cores()} cores{set_by}")
    features = _processor_features()
    does = torch.backends.cpu.get_cpu_capability()
    yield Check("processor", "ok", f"{platform.machine()}, PyTorch uses {does}{f' ({features})' if features else ''}")
    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            gpu = torch.cuda.get_device_properties(index)
            yield Check("GPU", "ok", f"cuda:{index} is {gpu.name}, {gpu.total_memory / 2**30:.0f} GiB")
    elif torch.backends.mps.is_available():
        yield Check("GPU", "ok", "mps")
    elif Path("/dev/nvidiactl").exists():
        what = f"there is an NVIDIA GPU, which PyTorch {torch.__version__} does not find"
        yield Check("GPU", "wrong", what, "Install a PyTorch that is built for its driver: https://pytorch.org")
    else:
        yield Check("GPU", "missing", "none; pocket models need none")


def _processor_features() -> str:
    """Return which of ``FEATURES`` the processor reports; empty if it reports none."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return ""
    words = set(text.split())
    return ", ".join(name for name in FEATURES if name in words)


def _extras() -> Iterator[Check]:
    """Check the optional packages."""
    optional = [(package.name, package.module, package.how) for package in _engine_packages()]
    optional += [
        ("Ray", "ray", "pip install 'llm-league[ray]'"),
        ("httpx2, for players behind servers", "httpx2", "pip install 'llm-league[openai]'"),
        ("pandas, for metrics as a frame", "pandas", "pip install 'llm-league[pandas]'"),
    ]
    for name, module, how in optional:
        spec = find_spec(module)
        if spec is not None and spec.origin is not None:
            yield Check(name, "ok", _version(module))
        else:
            yield Check(name, "missing", "not installed", how)


def _engine_packages() -> list[EnginePackage]:
    """Return the packages that engines need, each once."""
    from league.population.players.model_engine import ENGINES

    return list(dict.fromkeys(kind.package for kind in ENGINES.loaded().values() if kind.package is not None))


def _version(module: str) -> str:
    try:
        return version(module)
    except PackageNotFoundError:
        return "of an unknown version"


def _places() -> Iterator[Check]:
    """Check the folders of runs and models, which must be writable."""
    from league.population.models.cache import HOME_VARIABLE, cache_home, models_folder
    from league.population.storage.run_dir import RUNS

    stored = sum(1 for _ in models_folder().glob("*/config.json")) if models_folder().is_dir() else 0
    for name, folder, what, change in (
        ("runs", RUNS.absolute(), "", "Go to a folder that you can write to, or name one with --run-dir."),
        (
            "models",
            cache_home(),
            f", {stored} stored",
            f"Name a folder that you can write to: export {HOME_VARIABLE}=DIR",
        ),
    ):
        nearest = next(path for path in (folder, *folder.parents) if path.exists())
        try:
            with tempfile.TemporaryFile(dir=nearest):
                pass
        except OSError as error:
            yield Check(name, "wrong", f"{nearest} cannot be written ({error.strerror})", change)
            continue
        free = shutil.disk_usage(nearest).free
        text = f"{folder} can be written, {free / 2**30:.1f} GiB free{what}"
        little = f"Less than {ENOUGH_DISK / 2**30:.0f} GiB are free: remove what is not needed. {change}"
        yield Check(name, "ok", text) if free >= ENOUGH_DISK else Check(name, "wrong", text, little)


def _plugins() -> Iterator[Check]:
    from games.common.registry import listed

    for entry in listed():
        if entry.error:
            yield Check(f"plugin {entry.plugin}", "wrong", f"{entry.group} {entry.name} cannot be loaded", entry.error)
