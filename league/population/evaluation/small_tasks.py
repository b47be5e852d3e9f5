"""Small tasks generated from a seed: arithmetic, reading a table, following an instruction. What training costs there.

Each has a prompt in plain English, a few answers to choose from, and one that is right. A model is scored in two ways.
``choice``: the answer with the greatest log-probability as a whole reply, its end included, is the right one; nothing
depends on how the model words it. ``greedy``: of all answers, the one that its most likely reply names first is the
right one, so a model that no longer replies in words fails.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import NamedTuple

import torch

from arena.lm.decoding.decode import generate
from arena.lm.language_model import LanguageModel
from arena.lm.scoring import reply_logprobs
from games.common.seeds import derive_seed

MAX_TOKENS = 1024  # in one pass
REPLY_TOKENS = 16  # of a greedy reply
COLD = 1e-3  # the temperature of a greedy reply: of two tokens whose logits differ by 0.02 it takes the likelier
CHOICES = 4
WORDS = (
    *("apple", "bridge", "candle", "doctor", "engine", "forest", "garden", "hammer", "island", "jacket"),
    *("kitchen", "ladder", "mirror", "needle", "orange", "pencil", "river", "silver", "table", "window"),
)
PLACES = ("first", "second", "third", "last")


class SmallTask(NamedTuple):
    """A question with the answers to choose from."""

    kind: str
    prompt: str
    choices: tuple[str, ...]  # [A], all different
    right: int  # the index of the right one


class TaskScore(NamedTuple):
    """What a model makes of one task."""

    kind: str
    probability: float  # of the right answer among the choices
    choice: bool  # it is the likeliest of them
    greedy: bool  # the model's most likely reply names it before any other


def arithmetic(rng: random.Random) -> tuple[str, list[str]]:
    """Return a sum or difference of numbers up to 20, and answers, the right one first."""
    a, b = rng.randint(1, 20), rng.randint(1, 20)
    right = a + b if (plus := rng.random() < 0.5 or a < b) else a - b
    near = [number for number in range(max(right - 5, 0), right + 6) if number != right]
    question = f"What is {a} {'plus' if plus else 'minus'} {b}? Answer with the number alone."
    return question, [str(number) for number in (right, *rng.sample(near, CHOICES - 1))]


def reading_a_table(rng: random.Random) -> tuple[str, list[str]]:
    """Return a question on a table of things and prices, and its prices, the right one first."""
    things, prices = rng.sample(WORDS, CHOICES), rng.sample(range(10, 100), CHOICES)
    asked = rng.randrange(CHOICES)
    rows = "\n".join(f"{thing} | {price}" for thing, price in zip(things, prices, strict=True))
    question = f"thing | price\n{rows}\n\nWhat is the price of the {things[asked]}? Answer with the number alone."
    return question, [str(prices[asked]), *(str(price) for price in prices if price != prices[asked])]


def following_an_instruction(rng: random.Random) -> tuple[str, list[str]]:
    """Return an instruction to write one of some words, by its place, and the words, the right one first."""
    words = rng.sample(WORDS, CHOICES)
    asked = rng.randrange(CHOICES)
    question = f"Here are four words: {', '.join(words)}. Write the {PLACES[asked]} of them and nothing else."
    return question, [words[asked], *(word for word in words if word != words[asked])]


KINDS: dict[str, Callable[[random.Random], tuple[str, list[str]]]] = {
    "arithmetic": arithmetic,
    "table": reading_a_table,
    "instruction": following_an_instruction,
}


def small_tasks(number: int, seed: int = 0) -> list[SmallTask]:
    """Return ``number`` tasks of each kind, the same for the same seed; the right answer's place is random."""
    tasks = []
    for kind, make in KINDS.items():
        for index in range(number):
            rng = random.Random(derive_seed(seed, "small task", kind, index))
            prompt, (right, *others) = make(rng)
            choices = rng.sample([right, *others], len(others) + 1)
            tasks.append(SmallTask(kind, prompt, tuple(choices), choices.index(right)))
    return tasks


def score_tasks(lm: LanguageModel, tasks: Sequence[SmallTask]) -> list[TaskScore]:
    """Return what a model makes of each task."""
    prompts = [lm.encode_prompt([{"role": "user", "content": task.prompt}]) for task in tasks]
    rows = [(index, choice) for index, task in enumerate(tasks) for choice in task.choices]
    replies = [lm.encode_reply(choice) for _, choice in rows]
    logprobs = reply_logprobs(lm, [prompts[index] for index, _ in rows], replies, MAX_TOKENS)
    rngs = [random.Random(index) for index in range(len(tasks))]
    written = generate(lm, prompts, rngs, temperature=COLD, max_tokens=REPLY_TOKENS, max_batch_tokens=MAX_TOKENS)
    found, first = [], 0
    for task, reply in zip(tasks, written, strict=True):
        own = torch.tensor(logprobs[first : first + len(task.choices)]).double().softmax(0)
        first += len(task.choices)
        named = first_named(task.choices, lm.decode(reply.reply_ids))
        best = int(own.argmax()) == task.right
        found.append(TaskScore(task.kind, float(own[task.right]), best, named == task.right))
    return found


def first_named(choices: Sequence[str], reply: str) -> int | None:
    """Return the index of the choice that a reply names first, as a whole word in any case; None if it names none."""
    places = [
        (match.start(), index)
        for index, choice in enumerate(choices)
        if (match := re.search(rf"(?<!\w){re.escape(choice)}(?!\w)", reply, re.IGNORECASE))
    ]
    return min(places)[1] if places else None


def task_shares(scores: Sequence[TaskScore]) -> dict[str, float]:
    """Return, by ``KIND/choice`` and ``KIND/greedy``, the share of tasks that were answered rightly."""
    shares = {}
    for kind in dict.fromkeys(score.kind for score in scores):
        own = [score for score in scores if score.kind == kind]
        shares[f"{kind}/choice"] = fmean(score.choice for score in own)
        shares[f"{kind}/greedy"] = fmean(score.greedy for score in own)
    return shares
