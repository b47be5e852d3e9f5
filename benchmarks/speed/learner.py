"""Tokens per second of the learner on free replies of game length, in one process, system after system.

    python -m benchmarks.speed.learner [--rows N] [--repeats N] [--threads N] [--json]

The rows are prompts of random play in six games, 4 characters to a token as in real models' vocabularies, with
replies of log-normal lengths around 64 tokens, at most 256. The model is Qwen3-shaped, 4 layers of 128, and a
vocabulary of 4,096. Every system takes one optimiser step on all rows: ppo's gradient, clipped, AdamW. Rates are
tokens of prompts and replies, padding not counted, per second of this process's own time on one thread.

learner: ``update`` as it is. sorted, padded: the same with rows padded to the longest of a pass, in order of length
or in the order of the batch. bare: forward and backward of the learner's own packed passes, with cross-entropy as the
loss, and the step, and nothing else. trl: TRL's ``GRPOTrainer``, its loss on micro-batches of 8 rows, each padded to
its own longest prompt and reply (by itself TRL pads to those of the whole batch, which is slower).

Expected before the first measurement: learner 2.5 times padded, since half of padded's positions are padding and
prompts that begin alike are read once; 1.4 times sorted; 0.93 of bare; 2.5 times trl.
"""

from __future__ import annotations

import math
import random
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn.functional import cross_entropy
from transformers import Qwen3Config, Qwen3ForCausalLM

from arena.lm.chunks import Chunk, Tokens
from arena.lm.language_model import LanguageModel
from arena.lm.packing import lay_out, packed_inputs, plan_packs
from arena.lm.pocket import train_tokenizer
from arena.lm.scoring import last_states
from arena.samplers.scripted import Random
from benchmarks.speed.timing import Figures, print_figures, ratios, speed_parser, spread
from benchmarks.speed.workload import match_requests, play_all
from games.registry import make_game
from learners.batching import Draw, FreeRow, TrainBatch
from learners.losses.objective import Objective, Surrogate
from learners.update.learner import StepSettings, update
from learners.update.policy import Policy
from roles.cards import load_roles, with_overrides
from roles.chat_text import plain_text
from roles.prompts import messages

GAMES = ("kuhn_poker", "tic_tac_toe", "leduc_poker", "connect_four", "hanabi", "negotiation")
VOCABULARY, CHARACTERS, MEDIAN, LONGEST = 4096, 4, 64, 256
MAX_TOKENS, MICRO_BATCH = 4096, 8  # tokens, rows
RATE = 1e-4


def prompts(game: str) -> list[Tokens]:
    """Return the prompts of a few random matches."""
    spec = make_game(game).spec
    roles = tuple(with_overrides(role, reply="free", on_illegal="forfeit") for role in load_roles(spec))
    episodes = play_all(match_requests(game, [("random",) * spec.seats] * 8), roles, Random())
    turns = [turn for episode in episodes for turn in episode.turns]
    texts = [plain_text(messages(roles[turn.seat], turn.observation, turn.legal)) for turn in turns]
    return [tuple(_token(text[i : i + CHARACTERS]) for i in range(0, len(text), CHARACTERS)) for text in texts]


def _token(text: str) -> int:
    return zlib.crc32(text.encode()) % VOCABULARY


def game_length_batch(rows: int) -> TrainBatch:
    """Return rows of all games in a random order."""
    rng = random.Random(0)
    drawn = rng.sample([(game, prompt) for game in GAMES for prompt in prompts(game)], rows)
    free = []
    for game, prompt in drawn:
        length = min(LONGEST, max(1, round(math.exp(rng.gauss(math.log(MEDIAN), 0.8)))))
        reply = tuple(rng.choices(range(VOCABULARY), k=length))
        gain = rng.choice((0.0, 1.0)) / rows
        draw = Draw(0, (0.0,) * length, 1.0, gain, gain - 1 / rows)
        free.append(FreeRow(game, game, prompt, reply, 1.0, 1.0, 1 / rows, gain, gain - 1 / rows, (draw,)))
    return TrainBatch("main", (), tuple(free), rows, ("main",))


def language_model(kind: type[LanguageModel] = LanguageModel) -> LanguageModel:
    """Return the benchmark's model, always with the same weights."""
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        tie_word_embeddings=True,
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
    )
    return kind(Qwen3ForCausalLM(config).eval(), train_tokenizer(["nothing is read as text here"], 300))


class Sorted(LanguageModel):
    """A model whose rows are padded, those of similar lengths together."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        super().__init__(model, tokenizer)
        self.shares_prefix = False


class Padded(Sorted):
    """A model whose rows are padded in the order of the batch."""

    def plan(
        self, prompts: Sequence[Tokens], continuations: Sequence[Sequence[Tokens]], max_tokens: int
    ) -> list[Chunk]:
        """See ``LanguageModel``."""
        chunks, texts = [], [prompt + replies[0] for prompt, replies in zip(prompts, continuations, strict=True)]
        start = 0
        for stop in range(1, len(texts) + 1):
            if stop == len(texts) or max(map(len, texts[start : stop + 1])) * (stop + 1 - start) > max_tokens:
                chunks.append(Chunk((), tuple(range(start, stop)), tuple(texts[start:stop])))
                start = stop
        return chunks


def learner(batch: TrainBatch, kind: type[LanguageModel]) -> Callable[[], None]:
    """Return an update of one step."""
    policy = Policy("main", language_model(kind), weight_decay=0.0, magnet=False)
    steps = StepSettings(learning_rate=RATE, inner_steps=1, max_grad_norm=1.0, max_gap=math.inf, max_tokens=MAX_TOKENS)
    objective = Objective(Surrogate(), {})

    def step() -> None:
        update(policy, batch, objective, steps)

    return step


def bare(batch: TrainBatch) -> Callable[[], None]:
    """Return a forward and backward pass of the learner's packs, and the step."""
    lm, replies = language_model(), [row.reply for row in batch.free]
    packs = plan_packs([row.prompt for row in batch.free], replies, MAX_TOKENS, [(i,) for i in range(len(replies))])
    layouts = [lay_out(pack, replies, lm.device) for pack in packs]
    optimizer = torch.optim.AdamW(lm.model.parameters(), lr=RATE, weight_decay=0.0)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        for layout in layouts:
            with last_states(lm.model) as states:
                lm.model(**packed_inputs(layout, layout.scored[:0]))
            cross_entropy(lm.model.lm_head(states[0][0, layout.scored]), layout.targets).backward()
        torch.nn.utils.clip_grad_norm_(lm.model.parameters(), 1.0)
        optimizer.step()

    return step


def trl(batch: TrainBatch) -> Callable[[], None]:
    """Return TRL's loss on the same rows, backward, and the step. Raises ImportError without TRL."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    lm = language_model()
    lm.model.set_attn_implementation("sdpa")
    settings = GRPOConfig(
        tempfile.mkdtemp(prefix="league-trl-"),
        per_device_train_batch_size=MICRO_BATCH,
        num_generations=MICRO_BATCH,
        beta=0.0,
        bf16=False,
        use_cpu=True,
        gradient_checkpointing=False,
        report_to="none",
    )
    trainer = GRPOTrainer(
        lm.model,
        lambda completions, **_: [0.0] * len(completions),
        settings,
        processing_class=lm.tokenizer,
        train_dataset=Dataset.from_list([{"prompt": "none"}] * MICRO_BATCH),
    )
    trainer.current_gradient_accumulation_steps = -(-len(batch.free) // MICRO_BATCH)
    parts = [_trl_inputs(batch.free[i : i + MICRO_BATCH]) for i in range(0, len(batch.free), MICRO_BATCH)]
    optimizer = torch.optim.AdamW(trainer.model.parameters(), lr=RATE, weight_decay=0.0)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        for inputs in parts:
            trainer.compute_loss(trainer.model, inputs).backward()
        torch.nn.utils.clip_grad_norm_(trainer.model.parameters(), 1.0)
        optimizer.step()

    return step


def _trl_inputs(rows: Sequence[FreeRow]) -> dict[str, Any]:
    """Return a micro-batch as TRL has it: prompts padded on the left, completions on the right."""
    before, after = max(len(row.prompt) for row in rows), max(len(row.reply) for row in rows)
    return {
        "prompt_ids": torch.tensor([[*[0] * (before - len(row.prompt)), *row.prompt] for row in rows]),
        "prompt_mask": torch.tensor([[0] * (before - len(row.prompt)) + [1] * len(row.prompt) for row in rows]),
        "completion_ids": torch.tensor([[*row.reply, *[0] * (after - len(row.reply))] for row in rows]),
        "completion_mask": torch.tensor([[1] * len(row.reply) + [0] * (after - len(row.reply)) for row in rows]),
        "advantages": torch.tensor([1.0 if row.gain else -1.0 for row in rows]),
        "num_items_in_batch": torch.tensor(sum(len(row.reply) for row in rows)),
    }


def measure(rows: int, repeats: int) -> Figures:
    """Return each system's tokens/s, and the learner's ratios to the others."""
    batch = game_length_batch(rows)
    tokens = sum(len(row.prompt) + len(row.reply) for row in batch.free)
    systems = {
        "learner": learner(batch, LanguageModel),
        "sorted": learner(batch, Sorted),
        "padded": learner(batch, Padded),
        "bare": bare(batch),
        "trl": trl(batch),
    }
    rates: dict[str, list[float]] = {name: [] for name in systems}
    for repeat in range(repeats + 1):
        for name, step in systems.items():
            start = time.process_time()
            step()
            if repeat:  # the first warms up
                rates[name].append(tokens / (time.process_time() - start))
    for name in ("sorted", "padded", "bare", "trl"):
        rates[f"{name}_ratio"] = ratios(rates["learner"], rates[name])
    return spread(rates)


def main() -> None:
    """Measure and print."""
    parser = speed_parser(__doc__)
    parser.add_argument("--rows", type=int, default=64, help="prompts with a reply each")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print_figures(measure(arguments.rows, arguments.repeats), "tokens/s", ",.0f", as_json=arguments.json)


if __name__ == "__main__":
    main()
