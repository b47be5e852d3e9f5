"""Play and update of a language model of SmolLM2-135M's shape with an adapter, before and after what made them faster.

    python -m benchmarks.speed.pretrained [--layers N] [--repeats N] [--json]

play: one iteration of Kuhn poker's three rounds, 12 different prompts of 130 tokens, by a model in training and one
snapshot that it has met before. update: four steps on those prompts with a magnet, as in the preset ``smol``, before
and after each of the repairs, one more at a time, in turn. Utilisation is the FLOPs that had to be done, those of the
fastest way, divided by the time and by the rate of a plain product of this machine; all by this process's own time on
one thread.

head: a frozen output head beside one that is trained, for the last tokens of several prompts, in both types.

gap: the mean and the largest difference of log-probs in nats between sampler and learner, of whole free replies.

The model has random weights and by default 4 of the 30 layers; figures of layers do not depend on how many there are.

Expected before the first measurement: update 1.3 times as fast by longer passes, 1.2 by the two passes that are not
run again, 1.1 by adapters that add in place; play 2 times by the snapshot's passes, where they are equal; a frozen head
as fast as a trained one.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from unittest import mock

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from arena.flops import COUNTED
from arena.lm.chunks import Tokens
from arena.lm.decoding.decode import generate
from arena.lm.language_model import LanguageModel
from arena.lm.logprobs import ScoreOptions
from arena.lm.lora import Adapters, AdapterShape
from arena.lm.pocket import train_tokenizer
from arena.lm.scoring import plan_passes
from arena.samplers.pass_cache import PassCache
from benchmarks.speed.timing import Figures, print_figures, ratios, speed_parser, spread
from learners.batching import ChoiceRow, TrainBatch
from learners.losses.batch_loss import BatchLoss
from learners.losses.objective import Objective, Surrogate
from learners.update.learner import StepSettings, update
from learners.update.policy import Policy
from roles.truncation import NO_TRUNCATION, Truncation

VOCABULARY, WIDTH = 49_152, 576
LEGAL = ("bet", "pass")
ROUNDS = (range(3), range(3, 9), range(9, 12))  # prompts by round: the first seat's, the second's, the first's again
PREFIXES = 118, 123  # tokens that a seat's prompts share
SUFFIX = 12
HEAD_ROWS = 8
NUCLEUS = Truncation(top_p=0.9)
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def language_model(layers: int, dtype: torch.dtype = torch.float32) -> LanguageModel:
    """Return a model of the shape, always with the same weights."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        intermediate_size=1536,
        num_hidden_layers=layers,
        num_attention_heads=9,
        num_key_value_heads=3,
        tie_word_embeddings=True,
        initializer_range=0.04,
    )
    tokenizer = train_tokenizer(["bet pass"], 300)
    return LanguageModel(LlamaForCausalLM(config).eval().to(dtype), tokenizer)


def kuhn_prompts() -> list[Tokens]:
    """Return twelve prompts of two seats, in the order of ``ROUNDS``."""
    rng = random.Random(0)
    starts = [tuple(rng.randrange(300, VOCABULARY) for _ in range(length)) for length in PREFIXES]
    seats = [0] * 3 + [1] * 6 + [0] * 3
    return [(*starts[seat], *(rng.randrange(300, VOCABULARY) for _ in range(SUFFIX))) for seat in seats]


class Workload:
    """The model, its snapshot, and the work of one iteration."""

    def __init__(self, layers: int) -> None:
        base = language_model(layers)
        adapters = Adapters(base, "base")
        lm = adapters.add(AdapterShape(rank=16), 0)
        self.policy = Policy("main", lm, weight_decay=0.0, magnet=True)
        self.live, self.snapshot = lm, lm.frozen_copy()
        self.prompts, self.trie = kuhn_prompts(), lm.trie(LEGAL)
        self.kept = PassCache(self.snapshot)

    @torch.inference_mode()
    def play(self, kept: bool = True) -> None:
        """Compute the replies' probabilities of both players in all rounds."""
        for passes in (PassCache(self.live, live=True) if kept else None, self.kept if kept else None):
            for numbers in ROUNDS:
                prompts, tries = [self.prompts[i] for i in numbers], [self.trie] * len(numbers)
                for chunk in self.live.plan_choice(prompts, tries, 8192):
                    (passes or PassCache(self.snapshot)).nodes(chunk, tries, 1.0)

    def play_without_caches(self) -> None:
        """Play as if each round were the first."""
        self.kept = PassCache(self.snapshot)
        with _plain_head(self.live.model):
            self.play(kept=False)

    def update(self) -> None:
        """Take four steps on one turn of each prompt and reply."""
        halves = [0.5 / len(self.prompts)] * 2
        rows = tuple(
            ChoiceRow("kuhn_poker", "kuhn_poker", prompt, LEGAL, 1.0, [1.0, 1.0], halves, [0.02, 0.0], [0.0, -0.02])
            for prompt in self.prompts
        )
        objective = Objective(
            Surrogate("ppo", {"clip_low": 0.9, "clip_high": 9.0}), {"kuhn_poker": 0.1}, magnet=0.2, kl_old=3.0
        )
        steps = StepSettings(1e-4, 4, 1.0, 100.0, 1024, 256)
        update(self.policy, TrainBatch("main", rows, (), 2 * len(rows), ("main",)), objective, steps)


@contextmanager
def _plain_head(model: Any) -> Iterator[None]:
    """Let a model's output head read its states as they lie within."""
    hooks = model.get_output_embeddings()._forward_pre_hooks
    kept = dict(hooks)
    hooks.clear()
    try:
        yield
    finally:
        hooks.update(kept)


@contextmanager
def taken_back(repairs: Sequence[str], work: Workload) -> Iterator[None]:
    """Take repairs of the update back within."""
    with ExitStack() as stack:
        if "head" in repairs:
            stack.enter_context(_plain_head(work.live.model))
        if "packed" in repairs:
            stack.enter_context(mock.patch("arena.lm.language_model.PACKED_WIDTH", 1 << 30))
        if "first pass" in repairs:
            stack.enter_context(mock.patch.object(BatchLoss, "is_whole", False))
        if "magnet" in repairs:
            work.policy.frozen_results.clear()
        if "in place" in repairs:
            for module in (m for m in work.live.model.modules() if hasattr(m, "lora_A")):
                own = vars(module).pop("forward")
                stack.callback(vars(module).__setitem__, "forward", own)
        yield


REPAIRS = ("head", "packed", "in place", "first pass", "magnet")  # in the order in which they are made


UPDATES = ("update_before", "update_head", "update_packed", "update_in_place", "update_first_pass", "update_after")


def _seconds(run: Callable[[], object]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def peak() -> float:
    """Return the FLOP/s of a plain product, by this process's own time."""
    left = torch.ones(1024, 1024)
    return 2.0 * 1024**3 / min(_seconds(lambda: left @ left) for _ in range(5))


def utilisation(layers: int, repeats: int) -> dict[str, list[float]]:
    """Return seconds, ratios and utilisations of play and update, by repeat."""
    work = Workload(layers)
    variants: dict[str, Callable[[], None]] = {
        "play_before": work.play_without_caches,
        "play_after": work.play,
        **{name: _without(REPAIRS[made:], work) for made, name in enumerate(UPDATES)},
    }
    values: dict[str, list[float]] = {name: [] for name in variants}
    needed: dict[str, float] = {}
    rates: list[float] = []
    for repeat in range(repeats + 1):
        rate = peak()
        for name, run in variants.items():
            if name == "play_after":
                work.play()  # meets the snapshot for the first time
            before = COUNTED.total
            seconds = _seconds(run)
            needed[name] = COUNTED.total - before
            if repeat:  # the first warms up
                values[name].append(seconds)
        if repeat:
            rates.append(rate)
    result = {f"{name}_seconds": seconds for name, seconds in values.items()}
    for part in ("play", "update"):
        result[f"{part}_ratio"] = ratios(values[f"{part}_before"], values[f"{part}_after"])
        for when in ("before", "after"):
            result[f"{part}_mfu_{when}"] = [
                needed[f"{part}_after"] / seconds / rate
                for seconds, rate in zip(values[f"{part}_{when}"], rates, strict=True)
            ]
    return result | {"peak": rates}


def _without(repairs: Sequence[str], work: Workload) -> Callable[[], None]:
    def run() -> None:
        with taken_back(repairs, work):
            work.update()

    return run


@torch.no_grad()
def head_ratios(repeats: int) -> dict[str, list[float]]:
    """Return the time of a frozen head divided by that of a trained one, by type."""
    result: dict[str, list[float]] = {}
    for name, dtype in DTYPES.items():
        lm = language_model(1, dtype)
        head: Any = lm.model.get_output_embeddings()
        states = torch.randn(HEAD_ROWS, 9, WIDTH, dtype=dtype)
        times: dict[bool, list[float]] = {True: [], False: []}
        for repeat in range(repeats + 1):
            for trained in times:
                head.weight.requires_grad_(trained)
                seconds = _seconds(partial(head, states[:, -1:]))
                if repeat:
                    times[trained].append(seconds)
        result[f"head_{name}_ratio"] = ratios(times[False], times[True])
    return result


def gaps(layers: int) -> dict[str, list[float]]:
    """Return the differences of replies' log-probs between sampler and learner, by type and truncation."""
    result: dict[str, list[float]] = {}
    prompts = [prompt for prompt in kuhn_prompts()[:4] for _ in range(2)]
    for name, dtype in DTYPES.items():
        lm = language_model(layers, dtype)
        for label, truncation in (("", NO_TRUNCATION), ("_top_p", NUCLEUS)):
            rngs = [random.Random(i) for i in range(len(prompts))]
            settings: dict[str, Any] = {"temperature": 0.3, "max_tokens": 6, "max_batch_tokens": 8192}
            replies = generate(lm, prompts, rngs, **settings, truncation=truncation)
            result[f"gap_{name}{label}"] = _gaps(lm, prompts, replies, ScoreOptions(0.3, truncation=truncation))
    return result


@torch.no_grad()
def _gaps(lm: LanguageModel, prompts: Sequence[Tokens], replies: Sequence[Any], options: ScoreOptions) -> list[float]:
    differences: list[float] = []
    for one in plan_passes(lm, prompts, [reply.reply_ids for reply in replies], 8192):
        totals = one.scores(lm, options).logprobs.sum(1).tolist()
        differences += [abs(total - sum(replies[i].logprobs)) for i, total in zip(one.items, totals, strict=True)]
    return differences


def measure(layers: int, repeats: int) -> Figures:
    """Return all figures."""
    return spread(utilisation(layers, repeats) | head_ratios(repeats) | gaps(layers))


def main() -> None:
    """Measure and print."""
    parser = speed_parser(__doc__)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print_figures(measure(arguments.layers, arguments.repeats), "", ",.3g", as_json=arguments.json)


if __name__ == "__main__":
    main()
