"""What a row for each turn costs a learner beside one row a match, and what stripping earlier thoughts does to a row.

    python -m benchmarks.speed.rendering [FOLDER of smollm2-135m]

prints the table of benchmarks/results/rendering.md. A seat of the repeated prisoner's dilemma, whose observation is
the last round, and of repeated Kuhn poker, whose observation is all hands so far, thinks ``THOUGHT`` and acts, few
times and many. Tokens are SmolLM2's. Seconds are those of the league's own update of a pocket model on as many
tokens.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch

from arena.lm.pocket import PocketShape, build_pocket
from arena.lm.tokenization import ChatTokenizer
from games.registry import make_game
from league.config import RolesConfig
from league.config.load import seat_roles
from learners.batching import FreeRow, TrainBatch
from learners.losses.objective import Objective, Surrogate
from learners.update.learner import StepSettings, update
from learners.update.policy import Policy
from roles.prompts import position_messages

GAMES = {
    "iterated prisoner's dilemma": "repeated_game(stage_game=matrix_pd(),num_repetitions={})",
    "repeated Kuhn poker": "repeated_kuhn_poker(hands={})",
}
TURNS = {"iterated prisoner's dilemma": (8, 128), "repeated Kuhn poker": (8, 100)}
SAMPLED = 32  # tokens of a thought
MEASURED = 8  # turns of a match whose thoughts are sampled
THOUGHT = "They did as I did last time, so I keep to it; if they turn on me I shall answer once and then make peace."
STEPS = StepSettings(1e-4, 1, 1.0, 1e9, 32_768)


class Seat(NamedTuple):
    """One seat's match as tokens."""

    prompts: list[tuple[int, ...]]  # of every turn  # [K]
    replies: list[tuple[int, ...]]  # thought and action  # [K]
    actions: list[tuple[int, ...]]  # the action alone  # [K]
    news: list[tuple[int, ...]]  # what was said to the seat since its last turn, as a chat's next message  # [K]
    seconds: float  # to render the prompts


def play(name: str, tokenizer: ChatTokenizer) -> Seat:
    """Return the first seat's match in which all play their first legal action."""
    game, seat = make_game(name), Seat([], [], [], [], 0.0)
    game.reset(0)
    roles = seat_roles(RolesConfig.model_validate({"reply": "free", "wording": "full"}), game.spec)
    seen: set[str] = set()
    while (acting := game.to_act()) is not None:
        action = game.actions().labels[0]  # type: ignore[union-attr]
        if acting == 0:
            began = time.perf_counter()
            seat.prompts.append(tokenizer.encode_prompt(position_messages(roles[0], game)))
            seat = seat._replace(seconds=seat.seconds + time.perf_counter() - began)
            lines = game.observe(0).splitlines()
            new = "\n".join(line for line in lines if line not in seen)
            seen |= {*lines}
            seat.news.append(tokenizer.encode_prompt([{"role": "user", "content": new}]))
            seat.replies.append(tokenizer.encode_reply(f"<think>{THOUGHT}</think>[{action}]"))
            seat.actions.append(tokenizer.encode_reply(f"[{action}]"))
        game.apply(action)
    return seat


def chat(seat: Seat, replies: list[tuple[int, ...]]) -> list[int]:
    """Return one row of a whole match: the first prompt, and each reply with the message after it."""
    ids = list(seat.prompts[0])
    for reply, news in zip(replies, [*seat.news[1:], ()], strict=True):
        ids += [*reply, *news]
    return ids


def update_seconds(rows: list[tuple[tuple[int, ...], tuple[int, ...]]]) -> float:
    """Return the seconds of one update of a pocket model on rows of (prompt, reply)."""
    lm = build_pocket(["x"], PocketShape(vocabulary=300, context=65_536), 0)
    size = len(lm.tokenizer)
    free = [
        FreeRow("game", "game", _within(prompt, size), _within(reply, size), 1.0, 1.0, 1.0 / len(rows), 1.0, 0.0)
        for prompt, reply in rows
    ]
    batch = TrainBatch("main", (), tuple(free), len(rows), ("main",))
    policy = Policy("main", lm, weight_decay=0.0, magnet=False, reference=False)
    began = time.perf_counter()
    update(policy, batch, Objective(Surrogate(), {}), STEPS)
    return time.perf_counter() - began


def _within(ids: tuple[int, ...], size: int) -> tuple[int, ...]:
    return tuple(token % size for token in ids)


@torch.no_grad()
def moved(model: Any, seat: Seat) -> float:
    """Return how far a sampled token of the last reply moves, nats, when earlier thoughts are stripped before it.

    The model samples ``SAMPLED`` tokens a turn after everything that came before, thoughts included.
    """
    torch.manual_seed(0)
    whole, stripped, found = list(seat.prompts[0]), list(seat.prompts[0]), []
    for action, news in zip(seat.actions, [*seat.news[1:], ()], strict=True):
        context = torch.tensor([whole])
        said = model.generate(context, max_new_tokens=SAMPLED, min_new_tokens=SAMPLED, do_sample=True, pad_token_id=0)
        thought = said[0, len(whole) :].tolist()
        found = [_logprobs(model, ids, thought) for ids in (whole, stripped)]
        whole += [*thought, *action, *news]
        stripped += [*action, *news]
    return float((found[0] - found[1]).abs().mean())


def _logprobs(model: Any, context: list[int], reply: list[int]) -> torch.Tensor:
    logits = model(input_ids=torch.tensor([[*context, *reply]])).logits[0, len(context) - 1 : -1]
    return logits.log_softmax(-1)[range(len(reply)), reply]  # type: ignore[no-any-return]


def main() -> None:
    """Print the table."""
    from transformers import AutoModelForCausalLM

    default = Path.home() / ".cache" / "league" / "models" / "smollm2-135m"
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else default
    tokenizer, model = ChatTokenizer.read(folder), AutoModelForCausalLM.from_pretrained(folder).eval()
    for title, name in GAMES.items():
        for turns in TURNS[title]:
            seat = play(name.format(turns), tokenizer)
            whole, stripped = chat(seat, seat.replies), chat(seat, seat.actions)
            rows = list(zip(seat.prompts, seat.replies, strict=True))
            tokens = sum(len(prompt) + len(reply) for prompt, reply in rows)
            apart = update_seconds(rows)
            together = update_seconds([(seat.prompts[0], tuple(whole[len(seat.prompts[0]) :]))])
            shift = f"{moved(model, seat):.2f}" if len(rows) <= MEASURED else "–"
            print(
                f"| {title} | {len(rows)} | {tokens:,} | {len(whole):,} | {len(stripped):,} "
                f"| {1000 * seat.seconds:.0f} | {apart:.2f} | {together:.2f} | {shift} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
