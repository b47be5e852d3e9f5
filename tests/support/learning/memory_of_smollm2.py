"""A process that measures its peak memory in a second update, or while it writes replies; prints bytes and tokens.

What it had before the model was made (Python, libraries) does not count. Linux alone tells a peak again.
"""

import gc
import json
import random
import sys
from pathlib import Path

import torch

from arena.lm.decoding.decode import generate
from arena.lm.scoring import plan_passes
from arena.roofline import SMOLLM2
from benchmarks.gpu.session import Setup
from benchmarks.gpu.shapes import TINY, random_model
from benchmarks.gpu.update import Case, game_length_batch, policy_of, step_of
from learners.losses import chunk

REPLIES, PROMPT, REPLY, BATCH = 16, 192, 24, 1024
ROWS = 3  # of a batch
LARGEST: dict[str, int] = {}  # pass so far: its tokens, and those that are scored


def status(key: str) -> int:
    """Return a number of bytes of this process."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(key))


def peak_of(work, before: int) -> int:
    """Return the peak memory during a piece of work, above what there was before; pages of files do not count.

    A system short of memory takes these away and reads them again, so they come and go with what others do.
    """
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    work()
    return status("VmHWM") - status("RssFile") - before


def update(kind: str, tokens: int) -> dict[str, float]:
    """Measure a second update, when moments exist; an update of a tiny model before it loads what libraries need."""
    _step(TINY, kind, tokens)()
    gc.collect()
    before = status("RssAnon")
    step = _step(SMOLLM2, kind, tokens)
    step()
    return {"bytes": peak_of(step, before), **LARGEST}


def _step(shape, kind, tokens):
    case = Case(shape, kind == "lora", kind == "checkpointed", tokens, 0)
    return step_of(policy_of(case, Setup("cpu", True)), game_length_batch(ROWS, shape.vocabulary), tokens)


def recorded(lm, prompts, replies, *rest):
    """Plan passes, and keep the tokens of the largest."""
    passes = plan_passes(lm, prompts, replies, *rest)
    sizes = [sum(len(c.prefix) + sum(map(len, c.suffixes)) for c in one._pack.chunks) for one in passes]
    scored = [sum(len(replies[item]) for item in one.items) for one in passes]
    LARGEST.update(
        max(({"tokens": t, "scored": s} for t, s in zip(sizes, scored, strict=True)), key=lambda d: d["tokens"])
    )
    return passes


def play() -> dict[str, float]:
    """Measure replies in flight."""
    _writing(TINY)()
    gc.collect()
    before = status("RssAnon")
    write = _writing(SMOLLM2)
    return {"bytes": peak_of(write, before), "replies": REPLIES, "tokens": PROMPT + REPLY, "pass": BATCH}


def _writing(shape):
    rng, lm = random.Random(0), random_model(shape, "cpu", "float32")
    prompts = [tuple(rng.choices(range(shape.vocabulary), k=PROMPT)) for _ in range(REPLIES)]
    rngs = [random.Random(number) for number in range(REPLIES)]

    def write():
        with torch.inference_mode():
            generate([lm] * REPLIES, prompts, rngs, temperature=1.0, max_tokens=REPLY, max_batch_tokens=BATCH)

    return write


if __name__ == "__main__":
    torch.set_num_threads(1)
    chunk.plan_passes = recorded
    what, tokens = sys.argv[1], int(sys.argv[2])
    sys.stdout.write(json.dumps(play() if what == "play" else update(what, tokens)) + "\n")
