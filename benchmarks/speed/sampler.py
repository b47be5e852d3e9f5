"""Replies per second of ``torch_lm`` beside Hugging Face ``generate``: one model, the same prompts, one process.

    python -m benchmarks.speed.sampler [--matches N] [--prompts N] [--repeats N] [--threads N] [--json]

kuhn: masked replies in Kuhn poker, in the batches that the scheduler makes of 512 matches in flight, 12
different prompts among them. ``generate`` samples as many tokens as the longest legal reply has.

distinct: 256 prompts of 200 tokens that differ from their first token on, 32 new tokens each. No end token
can be drawn, so both sides make exactly 32.

The model is the pocket model, untrained: its replies make no difference to the time. ``generate`` gets its
prompts as tokens, padded beforehand, its fastest attention for this model, its cache, and no filter on
what it samples; it returns no log-probs, which ``torch_lm`` records. The systems take turns;
the ratio is taken within a turn. Rates are per second of this process's own time on one thread.

Expected before the first measurement: kuhn above 20 times, because equal prompts are computed once;
distinct 1.5 to 2 times, because nothing is copied at each new token and prompts are read in small chunks.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch

from arena.lm.decoding.decode import generate
from arena.lm.language_model import LanguageModel
from arena.lm.pocket import PocketShape, build_pocket
from arena.records import Episode, Reply, ReplyRequest, Sampler
from arena.samplers.scripted import Random
from arena.samplers.torch_lm import MAX_BATCH_TOKENS, TorchLM
from benchmarks.speed.timing import Figures, print_figures, process_rate, ratios, speed_parser, spread
from benchmarks.speed.workload import match_requests, play_all
from games.registry import make_game
from roles.cards import load_roles
from roles.chat_text import plain_text
from roles.prompts import messages

GAME = "kuhn_poker"
PROMPT_TOKENS, NEW_TOKENS = 200, 32
Prompts = Sequence[tuple[int, ...]]


class Recording:
    """A sampler that records the batches of its requests."""

    def __init__(self, engine: Sampler) -> None:
        self.engine = engine
        self.batches: list[list[ReplyRequest]] = []

    def sample(self, requests: Sequence[ReplyRequest]) -> list[Reply]:
        """Answer as the engine does."""
        self.batches.append(list(requests))
        return self.engine.sample(requests)


def play_kuhn(matches: int, engine: Sampler) -> list[Episode]:
    """Play Kuhn poker with all matches in flight at once."""
    return play_all(match_requests(GAME, [("lm", "lm")] * matches), load_roles(make_game(GAME).spec), engine)


def pocket_model() -> LanguageModel:
    """Return a pocket model whose tokenizer knows the game's prompts."""
    roles = load_roles(make_game(GAME).spec)
    texts = [
        plain_text(messages(roles[turn.seat], turn.observation, turn.legal)) + turn.reply
        for episode in play_kuhn(200, Random())
        for turn in episode.turns
    ]
    return build_pocket(texts, PocketShape(), seed=0)


class HuggingFace:
    """``generate`` at its best: sampling from the plain distribution, with its cache and its own attention."""

    def __init__(self, lm: LanguageModel) -> None:
        self._model: Any = copy.deepcopy(lm.model)
        self._model.set_attn_implementation("sdpa")
        self._pad = lm.tokenizer.pad_token_id

    def padded(self, prompts: Prompts) -> tuple[torch.Tensor, torch.Tensor]:
        """Return ids and mask [N, P], padded on the left."""
        width = max(map(len, prompts))
        ids = torch.tensor([[self._pad] * (width - len(prompt)) + list(prompt) for prompt in prompts])
        mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
        return ids, mask

    @torch.inference_mode()
    def sample(self, ids: torch.Tensor, mask: torch.Tensor, new_tokens: int, end: int | None) -> int:
        """Sample up to ``new_tokens`` for each row; return the number of replies."""
        out = self._model.generate(
            ids,
            attention_mask=mask,
            max_new_tokens=new_tokens,
            do_sample=True,
            top_k=0,
            top_p=1.0,
            use_cache=True,
            eos_token_id=end,
            pad_token_id=self._pad,
        )
        assert out.shape[1] <= ids.shape[1] + new_tokens
        return len(out)


def kuhn_systems(matches: int) -> dict[str, Callable[[], int]]:
    """Return both systems for masked replies in Kuhn poker; each call answers every batch of a round of matches."""
    lm = pocket_model()
    engine = TorchLM()
    engine.add("lm", lm)
    recording = Recording(engine)
    play_kuhn(matches, recording)
    hugging_face, padded = HuggingFace(lm), []
    for batch in recording.batches:
        chats = [messages(request.role, request.observation, request.legal) for request in batch]
        longest = max(len(lm.encode_reply(action)) for request in batch for action in request.legal)
        padded.append((*hugging_face.padded([lm.encode_prompt(chat) for chat in chats]), longest, lm.end_token))

    def league() -> int:
        engine.refresh()  # as after every update
        return sum(len(engine.sample(batch)) for batch in recording.batches)

    return {
        "kuhn_league": league,
        "kuhn_generate": lambda: sum(hugging_face.sample(*arguments) for arguments in padded),
    }


def distinct_systems(number: int) -> dict[str, Callable[[], int]]:
    """Return both systems for free replies to prompts without a common beginning."""
    rng = random.Random(0)
    shape = PocketShape()
    lm = build_pocket([" ".join(str(rng.random()) for _ in range(40)) for _ in range(400)], shape, seed=0)
    lm.end_token = -1
    vocabulary = len(lm.tokenizer)
    firsts = rng.sample(range(vocabulary), number)
    prompts = [(first, *rng.choices(range(vocabulary), k=PROMPT_TOKENS - 1)) for first in firsts]
    hugging_face = HuggingFace(lm)
    ids, mask = hugging_face.padded(prompts)

    def league() -> int:
        rngs = [random.Random(i) for i in range(number)]
        replies = generate(lm, prompts, rngs, temperature=1.0, max_tokens=NEW_TOKENS, max_batch_tokens=MAX_BATCH_TOKENS)
        assert {len(reply.reply_ids) for reply in replies} == {NEW_TOKENS}
        return len([lm.decode(reply.reply_ids) for reply in replies])

    return {
        "distinct_league": league,
        "distinct_generate": lambda: hugging_face.sample(ids, mask, NEW_TOKENS, None),
    }


def measure(matches: int, prompts: int, repeats: int) -> Figures:
    """Return each system's replies/s, and their ratios."""
    systems = kuhn_systems(matches) | distinct_systems(prompts)
    rates: dict[str, list[float]] = {name: [] for name in systems}
    for repeat in range(repeats + 1):
        for name, run in systems.items():
            rate = process_rate(run)
            if repeat:  # the first warms up
                rates[name].append(rate)
    for part in ("kuhn", "distinct"):
        rates[f"{part}_ratio"] = ratios(rates[f"{part}_league"], rates[f"{part}_generate"])
    return spread(rates)


def main() -> None:
    """Measure and print."""
    parser = speed_parser(__doc__)
    parser.add_argument("--matches", type=int, default=512, help="matches of Kuhn poker in flight")
    parser.add_argument("--prompts", type=int, default=256, help="different prompts")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    figures = measure(arguments.matches, arguments.prompts, arguments.repeats)
    print_figures(figures, "replies/s", ",.0f", as_json=arguments.json)


if __name__ == "__main__":
    main()
