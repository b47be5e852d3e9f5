"""Rollouts for TRL: the mask marks what the model said and nothing else, and matches are paid as the league pays."""

import copy
import sys
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace

import pytest
import torch

import league
from arena.lm.language_model import LanguageModel
from games.common.errors import UsageError
from league.cli.python.seat_matches import seat_matches
from league.population.players.engines import Engines


class Seat:
    """The client of a served seat, whose server is this process."""

    def __init__(self, game="kuhn_poker"):
        self.matches, self.heard, self.paid = seat_matches(game, "random", Engines(), seed=7), [], []

    def reset(self, seed):
        self.match, heard = self.matches.begin(seed), []
        self.heard.append(heard)
        return self._turn()

    def step(self, action):
        self.heard[-1].append((self.match.prompt, action["text"]))
        self.match.answer(action["text"])
        return self._turn()

    def _turn(self):
        if self.match.episode is not None:
            self.paid.append(self.match.seat_return)
        paid = self.match.seat_return
        return SimpleNamespace(done=paid is not None, reward=paid or 0.0, observation={"messages": self.match.prompt})


@pytest.fixture
def seat(monkeypatch):
    """Put a seat where OpenEnv's client would be."""
    here = Seat()

    @contextmanager
    def sync():
        yield here

    module = ModuleType("openenv.core")
    module.GenericEnvClient = lambda base_url: SimpleNamespace(sync=sync)
    monkeypatch.setitem(sys.modules, "openenv", ModuleType("openenv"))
    monkeypatch.setitem(sys.modules, "openenv.core", module)
    return here


TEMPLATE = (
    "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}>{% endif %}"
)


@pytest.fixture
def lm(lm):
    """Return a small model that is asked in chats."""
    chatting = LanguageModel(lm.model, copy.deepcopy(lm.tokenizer))
    chatting.tokenizer.chat_template = TEMPLATE
    return chatting


def trainer_of(lm, **settings):
    args = SimpleNamespace(**{"temperature": 1.0, "top_p": 1.0, "top_k": 0} | settings)
    return SimpleNamespace(model=lm.model, processing_class=lm.tokenizer, args=args)


def test_the_model_said_what_the_mask_says_and_the_rest_is_the_chat(lm, seat):
    torch.manual_seed(0)
    lm.model.train()
    trainer = trainer_of(lm)
    out = league.trl_rollouts("http://nowhere", reply_tokens=3)(["0", "1", "5"], trainer)
    assert lm.model.training
    assert out["logprobs"] is None
    assert out["match_return"] == seat.paid
    assert set(seat.paid) <= {-2.0, -1.0, 1.0, 2.0}
    for prompt, completion, mask, heard in zip(
        out["prompt_ids"], out["completion_ids"], out["env_mask"], seat.heard, strict=True
    ):
        assert len(completion) == len(mask)
        assert mask[0] == 1, "the prompt ends where the model begins to speak"
        tokens, marks = prompt + completion, [0] * len(prompt) + mask
        expected, marked = [], []
        for chat, _ in heard:
            asked = lm.tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
            expected += asked
            marked += [0] * len(asked)
            said = (
                tokens[len(expected) : len(expected) + marks[len(expected) :].index(0)]
                if 0 in marks[len(expected) :]
                else tokens[len(expected) :]
            )
            assert 1 <= len(said) <= 3
            expected += said
            marked += [1] * len(said)
        assert (tokens, marks) == (expected, marked)
        texts = [text for _, text in heard]
        said = "".join(texts)
        assert (
            lm.tokenizer.decode([t for t, m in zip(tokens, marks, strict=True) if m], skip_special_tokens=True) == said
        )


def test_equal_numbers_are_equal_deals_and_the_trainers_temperature_draws(lm, seat):
    rollouts = league.trl_rollouts("http://nowhere", reply_tokens=2)
    for temperature, most in ((1e-4, 1), (3.0, 8)):
        torch.manual_seed(0)
        out = rollouts(["3"] * 8, trainer_of(lm, temperature=temperature))
        assert len({tuple(ids) for ids in out["prompt_ids"]}) == 1
        replies = {tuple(ids[:2]) for ids in out["completion_ids"]}
        assert (len(replies) == 1) == (most == 1)


def test_a_model_is_left_as_it_was_when_the_server_goes(lm, seat, monkeypatch):
    monkeypatch.setattr(seat, "step", lambda action: (_ for _ in ()).throw(ConnectionError("gone")))
    lm.model.train()
    with pytest.raises(ConnectionError):
        league.trl_rollouts("http://nowhere")(["0"], trainer_of(lm))
    assert lm.model.training
    lm.model.eval()


def test_a_match_without_a_turn_teaches_nothing(lm, seat):
    seat.reset = lambda seed: SimpleNamespace(done=True, reward=-1.0, observation={})
    out = league.trl_rollouts("http://nowhere")(["0"], trainer_of(lm))
    assert (out["prompt_ids"], out["completion_ids"], out["env_mask"]) == ([[lm.end_token]], [[lm.end_token]], [[0]])
    assert out["match_return"] == [-1.0]


def test_without_openenv_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "openenv", None)
    monkeypatch.setitem(sys.modules, "openenv.core", None)
    with pytest.raises(UsageError, match=r"pip install 'llm-league\[openenv\]'"):
        league.trl_rollouts("http://nowhere")
