"""Small tasks: right answers computed another way, and models whose scores are known beforehand."""

import re
from collections import Counter

import pytest
import torch
from support.models.pocket import pocket

from arena.lm.language_model import LanguageModel
from league.population.evaluation.small_tasks import (
    CHOICES,
    KINDS,
    PLACES,
    SmallTask,
    TaskScore,
    first_named,
    score_tasks,
    small_tasks,
    task_shares,
)


def solved(task):
    """Return the right answer, read from the prompt alone."""
    if task.kind == "arithmetic":
        a, sign, b = re.fullmatch(r"What is (\d+) (plus|minus) (\d+)\? .*", task.prompt).groups()
        return str(int(a) + int(b) if sign == "plus" else int(a) - int(b))
    if task.kind == "table":
        thing = re.search(r"price of the (\w+)\?", task.prompt).group(1)
        return dict(line.split(" | ") for line in task.prompt.split("\n\n")[0].splitlines())[thing]
    words, place = re.fullmatch(r"Here are four words: (.*)\. Write the (\w+) of .*", task.prompt).groups()
    return words.split(", ")[PLACES.index(place)]


def test_tasks_have_one_right_answer_which_the_prompt_gives():
    tasks = small_tasks(60, seed=5)
    assert Counter(task.kind for task in tasks) == dict.fromkeys(KINDS, 60)
    for task in tasks:
        assert len({*task.choices}) == CHOICES
        assert task.choices[task.right] == solved(task)
        assert all(not choice.startswith("-") for choice in task.choices)
    assert {task.right for task in tasks} == set(range(CHOICES))
    assert len({task.prompt for task in tasks}) > 170
    signs = Counter("minus" in task.prompt for task in tasks if task.kind == "arithmetic")
    assert min(signs.values()) > 5


def test_a_seed_fixes_the_tasks_and_more_of_them_begin_alike():
    assert small_tasks(4, 1) == small_tasks(4, 1) != small_tasks(4, 2)
    assert small_tasks(9, 1)[:4] == small_tasks(4, 1)[:4]


def test_a_model_that_knows_nothing_likes_the_shortest_choice_and_names_none():
    """All weights 0: each token has probability 1/V, so a reply of n tokens and its end has V^-(n+1)."""
    lm = pocket()
    with torch.no_grad():
        for weight in lm.parameters().values():
            weight.zero_()
    tasks = [
        SmallTask("long", "Say it.", ("1", "123456789 123456789"), 0),
        SmallTask("even", "Say it.", ("1", "2", "3", "6"), 2),
        SmallTask("long", "Say it, please.", ("123456789 123456789", "1"), 0),
    ]
    first, even, last = score_tasks(lm, tasks)
    assert first.probability == pytest.approx(1.0, abs=1e-6)
    assert even.probability == pytest.approx(0.25)
    assert last.probability == pytest.approx(0.0, abs=1e-6)
    assert [score.choice for score in (first, even, last)] == [True, False, False]  # of equal ones the first counts
    assert [score.kind for score in (first, even, last)] == ["long", "even", "long"]


def test_choices_are_scored_with_their_ends_as_single_passes_score_them():
    lm = pocket(3, 2.0)
    task = SmallTask("k", "1 2 3", ("bet", "pass", "X O 6"), 1)
    prompt = lm.encode_prompt([{"role": "user", "content": task.prompt}])
    sums = []
    for choice in task.choices:
        reply = lm.encode_reply(choice)
        assert reply[-1] == lm.end_token
        with torch.no_grad():
            rows = lm.model(input_ids=torch.tensor([[*prompt, *reply]])).logits[0, len(prompt) - 1 : -1]
        scores = rows.double().log_softmax(-1)
        sums.append(sum(float(score[token]) for score, token in zip(scores, reply, strict=True)))
    [score] = score_tasks(lm, [task])
    assert score.probability == pytest.approx(float(torch.tensor(sums).softmax(0)[1]), rel=1e-3)
    assert score.choice == (max(sums) == sums[1])


class Writes(LanguageModel):
    """A pocket model whose most likely reply to anything is one text."""

    def __init__(self, text):
        lm = pocket()
        super().__init__(lm.model, lm.tokenizer)
        self.text = text

    def decode(self, reply_ids):
        return self.text


@pytest.mark.parametrize(("text", "greedy"), [("It is 16.", True), ("61 or 16", False), ("161", False), ("", False)])
def test_a_greedy_reply_is_right_if_it_names_the_right_answer_first(text, greedy):
    assert score_tasks(Writes(text), [SmallTask("k", "?", ("61", "16"), 1)])[0].greedy is greedy


def test_a_greedy_reply_is_that_of_the_likeliest_tokens(monkeypatch):
    """Of a model whose opinions differ little: drawn at a temperature of 1, twelve replies would not all be these."""
    lm, written = pocket(3, 0.5), []
    monkeypatch.setattr(lm, "decode", lambda reply: written.append(reply) or "")
    tasks = small_tasks(4)
    score_tasks(lm, tasks)
    for task, reply in zip(tasks, written, strict=True):
        ids = [*lm.encode_prompt([{"role": "user", "content": task.prompt}])]
        with torch.no_grad():
            logits = lm.model(input_ids=torch.tensor([ids])).logits[0, -1]
        assert float(logits.max() - logits[reply[0]]) < 0.02


def test_names_are_whole_words_in_any_case():
    assert first_named(("apple", "river"), "The River, not the apple") == 1
    assert first_named(("apple", "river"), "pineapple") is None
    assert first_named(("1", "12"), "12") == 1


def test_shares_are_by_kind_and_way():
    scores = [TaskScore("a", 0.5, True, False), TaskScore("a", 0.5, False, False), TaskScore("b", 0.1, False, True)]
    assert task_shares(scores) == {"a/choice": 0.5, "a/greedy": 0.0, "b/choice": 0.0, "b/greedy": 1.0}
