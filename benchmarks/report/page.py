"""Writes stored results into the pages beside them, each between two marks; people write the text around them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from benchmarks.report.comparison import comparison_lines
from benchmarks.report.curves import curve_lines, gap_lines, learning_lines
from benchmarks.report.provenance import ROOT
from benchmarks.report.rows import Row, by_repeat, by_seed
from benchmarks.simulations.defence_tabular import defence_lines
from benchmarks.simulations.textarena_entries import entry_lines
from benchmarks.simulations.until_decided import decided_lines
from benchmarks.speed.dark_boards import dark_lines
from benchmarks.speed.large_games import large_lines
from benchmarks.speed.large_models import model_lines
from benchmarks.studies.language.injections import injection_lines
from games.common.files import atomic_write

RESULTS = ROOT / "benchmarks" / "results"

Result = dict[str, Any]


def _preset_rows(
    minutes: int,
    main: float,
    mixture: float,
    score: float,
    share: float,
    *,
    time_wanted: str = "",
    score_wanted: str = "",
) -> list[Row]:
    """Return the rows of a preset that trains the three games."""
    return [
        Row("seconds", "time from an empty directory to the end", "{:,.0f} s", 60 * minutes, wanted=time_wanted),
        Row("peak_memory_gb", "peak memory", "{:.2f} GB", 3),
        Row("kuhn_exploitability", "Kuhn poker: exploitability of the last main", "{:.3f}", main),
        Row("kuhn_mixture_exploitability", "Kuhn poker: exploitability of the mixture", "{:.3f}", mixture),
        Row(
            "tic_tac_toe_score",
            "tic-tac-toe: score against random, 400 matches",
            "{:.3f}",
            score,
            at_most=False,
            wanted=score_wanted,
        ),
        Row("tiny_hanabi_share_of_optimum", "tiny Hanabi: share of the best return", "{:.3f}", share, at_most=False),
        Row("illegal_rate", "illegal replies", "{:.1%}", 0),
    ]


_PROCESSOR = Row("processor_seconds", "processor time of all threads", "{:,.0f} s")
_MINUTE = "60 s was wanted, but other programs ran beside it"

ROWS: dict[str, list[Row]] = {
    "pocket": [_PROCESSOR, *_preset_rows(6, 0.03, 0.05, 0.92, 0.99)],
    "returns": _preset_rows(6, 0.10, 0.05, 0.85, 0.8),
    "long": _preset_rows(
        40,
        0.03,
        0.03,
        0.90,
        0.95,
        time_wanted="1,800 s was wanted, which 18 minutes of processor time allow only on free cores",
        score_wanted="0.950 was wanted, but perfect play that draws among its best moves has 0.936",
    ),
    "free": [
        Row("seconds", "time from an empty directory to the end", "{:,.0f} s"),
        Row("peak_memory_gb", "peak memory", "{:.2f} GB", 3),
        Row("kuhn_exploitability", "Kuhn poker: exploitability of the last main, from samples", "{:.3f}", 0.15),
        Row("illegal_rate", "illegal replies", "{:.2%}", 0.02),
    ],
    "smol": [
        Row("seconds", "time from an empty directory to the end", "{:,.0f} s", 25 * 60),
        _PROCESSOR,
        Row("peak_memory_gb", "peak memory", "{:.2f} GB", 4),
        Row("kuhn_exploitability", "Kuhn poker: exploitability of the last main", "{:.3f}", 0.05),
        Row("kuhn_mixture_exploitability", "Kuhn poker: exploitability of the mixture", "{:.3f}", 0.05),
        Row(
            "tic_tac_toe_score",
            "tic-tac-toe: score against random, 100 matches",
            "{:.3f}",
            0.80,
            at_most=False,
        ),
    ],
    "smol-free": [
        Row("seconds", "time from an empty directory to the end", "{:,.0f} s"),
        _PROCESSOR,
        Row("peak_memory_gb", "peak memory", "{:.2f} GB", 4),
        Row("kuhn_exploitability", "Kuhn poker: exploitability of the distilled model, from samples", "{:.3f}", 0.08),
        Row("kuhn_mixture_exploitability", "Kuhn poker: exploitability of the masked mixture", "{:.3f}"),
        Row("illegal_rate", "illegal replies", "{:.2%}", 0.005),
    ],
    "arena": [
        Row("arena", "steps/s of this arena", "{:,.0f}"),
        Row("textarena_raw", "steps/s of TextArena, bare environment", "{:,.0f}"),
        Row("textarena_wrapped", "steps/s of TextArena, as registered", "{:,.0f}"),
        Row("ratio", "this arena ÷ TextArena's bare environment", "{:.2f}", 2, at_most=False),
    ],
    "sampler": [
        Row("kuhn_league", "Kuhn poker, 512 matches in flight: replies/s of torch_lm", "{:,.0f}"),
        Row("kuhn_generate", "the same: replies/s of generate", "{:,.0f}"),
        Row("kuhn_ratio", "torch_lm ÷ generate", "{:.1f}", 15, at_most=False),
        Row("distinct_league", "different prompts, 200 tokens and 32 new: replies/s of torch_lm", "{:,.0f}"),
        Row("distinct_generate", "the same: replies/s of generate", "{:,.0f}"),
        Row("distinct_ratio", "torch_lm ÷ generate", "{:.2f}", 2.5, at_most=False),
    ],
    "learner": [
        Row("learner", "tokens/s of the learner: packed", "{:,.0f}"),
        Row("sorted", "padded, rows of similar length together", "{:,.0f}"),
        Row("padded", "padded, rows in the order of the batch", "{:,.0f}"),
        Row("bare", "forward, backward and step of the learner's packs, nothing else", "{:,.0f}"),
        Row("trl", "TRL's GRPOTrainer", "{:,.0f}"),
        Row("sorted_ratio", "learner ÷ padded, rows of similar length together", "{:.2f}"),
        Row("padded_ratio", "learner ÷ padded, rows in the order of the batch", "{:.2f}", 2, at_most=False),
        Row("bare_ratio", "learner ÷ bare", "{:.2f}", 0.9, at_most=False),
        Row("trl_ratio", "learner ÷ TRL", "{:.2f}", 1, at_most=False),
    ],
    "pretrained": [
        Row("play_before_seconds", "play: seconds of a model and a snapshot, before", "{:.2f}"),
        Row("play_after_seconds", "after: equal passes are not run again", "{:.2f}"),
        Row("play_ratio", "play: before ÷ after", "{:.2f}"),
        Row("play_mfu_before", "play: utilisation before", "{:.2f}"),
        Row("play_mfu_after", "play: utilisation after", "{:.2f}", 0.4, at_most=False),
        Row("update_before_seconds", "update: seconds of four steps, before", "{:.2f}"),
        Row("update_head_seconds", "and a frozen head takes one product", "{:.2f}"),
        Row("update_packed_seconds", "and prefixes are read with what follows them", "{:.2f}"),
        Row("update_in_place_seconds", "and adapters add in place", "{:.2f}"),
        Row("update_first_pass_seconds", "and the first step gives π_old", "{:.2f}"),
        Row("update_after_seconds", "and the magnet is not asked again", "{:.2f}"),
        Row("update_ratio", "update: before ÷ after", "{:.2f}"),
        Row("update_mfu_before", "update: utilisation before", "{:.2f}"),
        Row("update_mfu_after", "update: utilisation after", "{:.2f}", 0.5, at_most=False),
        Row("peak", "a plain product: FLOP/s", "{:.2e}"),
        Row("head_float32_ratio", "frozen head ÷ trained head, time in float32", "{:.2f}", 1.1),
        Row("head_bfloat16_ratio", "the same in bfloat16", "{:.2f}", 1.1),
        Row("gap_float32", "gap of a reply in float32, nats", "{:.1e}", 1e-4),
        Row("gap_float32_top_p", "the same with top_p = 0.9", "{:.1e}", 1e-4),
        Row("gap_bfloat16", "gap of a reply in bfloat16, nats", "{:.1e}"),
        Row("gap_bfloat16_top_p", "the same with top_p = 0.9", "{:.1e}"),
    ],
    "growth": [
        Row("iteration_8", "seconds of an iteration, 8 snapshots", "{:.3f}"),
        Row("iteration_512", "seconds of an iteration, 512 snapshots", "{:.3f}"),
        Row("iteration_ratio", "512 snapshots ÷ 8", "{:.3f}", 1.1),
        Row("snapshot_8", "seconds of an iteration that freezes a snapshot, 8 snapshots", "{:.3f}"),
        Row("snapshot_512", "seconds of an iteration that freezes a snapshot, 512 snapshots", "{:.3f}"),
        Row("snapshot_ratio", "512 snapshots ÷ 8", "{:.3f}", 1.1),
    ],
    "store": [
        Row("add", "seconds to add a million matches", "{:.1f}"),
        Row("bytes_per_match", "bytes a match on disk", "{:.1f}"),
        Row("cells_and_pairs", "seconds to read payoffs and pairs, cold", "{:.2f}"),
        Row("standings", "seconds of `league standings`, 1,000 players", "{:.2f}", 3),
        Row("draw", "seconds to draw 1,024 matches by all the rules, 1,000 players", "{:.4f}", 0.02),
    ],
    "report": [
        Row("seconds", "seconds of `league report`", "{:.1f}", 20),
        Row("processor_seconds", "the same, of a processor", "{:.1f}"),
        Row("megabytes", "megabytes of the page", "{:.2f}", 10),
    ],
    "board": [
        Row("loop_without", "processor seconds of the loop without the board", "{:.1f}"),
        Row("loop_with", "with it", "{:.1f}"),
        Row("loop_ratio", "with ÷ without", "{:.3f}"),
        Row("processor_ratio", "with ÷ without: the whole run, with the process that draws figures", "{:.3f}"),
        Row("clock_ratio", "with ÷ without: time from start to end", "{:.3f}"),
    ],
    "records": [
        Row(
            "alone",
            "records/s of one process that appends, leases, reads and acknowledges",
            "{:,.0f}",
            5000,
            at_most=False,
        ),
        Row("alone_file", "the same: largest file with its log, MB", "{:.1f}", 64),
        Row("beside", "records/s of a process that appends beside one that learns", "{:,.0f}", 5000, at_most=False),
        Row("beside_file", "the same: largest file with its log, MB", "{:.1f}", 64),
    ],
    "vllm": [
        Row("arena", "tokens/s of the arena over vLLM, all matches in flight", "{:,.0f}"),
        Row("generate", "tokens/s of vLLM's own `llm.generate`, the same prompts at once", "{:,.0f}"),
        Row("ratio", "arena ÷ `llm.generate`", "{:.2f}", 0.9, at_most=False),
        Row("gap_choice", "largest difference from transformers + PEFT, `choice`, nats", "{:.1e}", 1e-3),
        Row("gap_free", "the same, `free`, nats", "{:.1e}", 1e-3),
        Row("few", "seconds of 2,016 matches between 4 adapters", "{:.1f}"),
        Row("many", "seconds of 2,016 matches between 64 adapters in 4 slots", "{:.1f}"),
        Row("many_to_few", "64 adapters ÷ 4", "{:.2f}", 2),
    ],
    "ray": [
        Row("ray", "tokens/s over Ray, two workers", "{:,.0f}"),
        Row("alone", "the sum of two that play alone, without Ray", "{:,.0f}"),
        Row("beside", "the same two at the same time, without Ray", "{:,.0f}"),
        Row("ratio", "over Ray ÷ alone", "{:.2f}", 0.9, at_most=False),
        Row("ratio_beside", "over Ray ÷ at the same time", "{:.2f}"),
    ],
    "dilemma": [
        Row(
            "aligned_cooperation",
            "aligned, with itself: both cooperate",
            "{:.3f}",
            0.6,
            at_most=False,
            wanted="0.800 was wanted, but a tabular model of the same update ends at 0.79, and seeds differ by 0.05",
        ),
        Row("aligned_defection", "aligned, with always:defect: it defects", "{:.3f}", 0.8, at_most=False),
        Row("plain_cooperation", "plain, with itself: both cooperate", "{:.3f}", 0.1),
        Row("plain_defection", "plain, with always:defect: it defects", "{:.3f}"),
        Row("aligned_seconds", "aligned: time from an empty directory to the end", "{:,.0f} s", 120, wanted=_MINUTE),
        Row("plain_seconds", "plain: time from an empty directory to the end", "{:,.0f} s", 120, wanted=_MINUTE),
    ],
}
WRITERS: Any = {
    "tables": comparison_lines,
    "curves": curve_lines,
    "courses": gap_lines,
    "learning": learning_lines,
    "decided": decided_lines,
    "defence": defence_lines,
    "injections": injection_lines,
    "entries": entry_lines,
    "large": large_lines,
    "dark": dark_lines,
    "models": model_lines,
}


def table(part: str, stored: Result) -> str:
    """Return a part's result as Markdown: the command, a table, and its provenance."""
    result = stored["result"]
    if kind := next((kind for kind in WRITERS if kind in result), None):
        lines = WRITERS[kind](result[kind])
    elif "seeds" in result:
        lines = by_seed(ROWS[part], result["seeds"])
    else:
        lines = by_repeat(ROWS[part], result)
    return "\n".join([f"`{stored['command']}`", "", *lines, "", _origin(stored)])


def render() -> None:
    """Write every stored result between its marks in its page. Raises ValueError for a result without marks."""
    for path in sorted(RESULTS.glob("*.json")):
        page, text = page_of(path.stem), table(path.stem, json.loads(path.read_text(encoding="utf-8")))
        atomic_write(page, insert(page.read_text(encoding="utf-8"), path.stem, text))


def page_of(part: str) -> Path:
    """Return the page that shows a part's result: the one that holds its marks. Raises ValueError if none does."""
    for page in sorted(RESULTS.glob("*.md")):
        if _marks(part)[0] in page.read_text(encoding="utf-8"):
            return page
    raise ValueError(
        f"No page in {RESULTS} holds {' and '.join(_marks(part))}; the result of {part} goes between them."
    )


def _marks(part: str) -> tuple[str, str]:
    return f"<!-- {part}: written by `python -m benchmarks --render` -->", f"<!-- {part}: end -->"


def insert(page: str, part: str, text: str) -> str:
    """Return the page with the text between a part's two marks replaced."""
    begin, end = _marks(part)
    marked = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if len(marked.findall(page)) != 1:
        raise ValueError(f"The page must hold {begin} and {end} once; the result of {part} goes between them.")
    return marked.sub(lambda _: f"{begin}\n{text}\n{end}", page)


def _origin(stored: Result) -> str:
    machine, changed = stored["machine"], " with uncommitted changes" if stored["uncommitted_changes"] else ""
    cores = f"{machine['cores']} core{'s' * (machine['cores'] != 1)}"
    versions = ", ".join(f"{name} {number}" for name, number in stored["packages"].items() if number)
    return (
        f"Measured on {stored['date']} at commit {stored['commit']}{changed}: {cores} of "
        f"{machine['cpu']}, {machine['memory_gb']:g} GB, {machine['system']}; {versions}."
    )
