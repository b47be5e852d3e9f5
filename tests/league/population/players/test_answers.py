"""Answers of endpoints on disk: nothing is asked twice, a kill loses nothing, and what is damaged is refused."""

import json
import random

import pytest
from support.matches.kuhn import kuhn_matches, roles_for
from support.processes.server import MODELS, Server, completion

from arena.records import ReplyRequest
from arena.scheduler import play
from games.common.errors import DamagedFile, UsageError
from games.registry import make_game
from league.population.players.answers import AnswerStore, kept_in, key_of
from league.population.players.engines import Engines
from league.population.players.player import resolve

HOSTILE = 'bet\n["x"]\u2028<script>alert(1)</script> \U0001f310 "\\'
FREE = {"reply": "free", "on_illegal": "retry"}


def name_of(server):
    return f"openai:{MODELS[0]}@{server.url}"


def request(seed=0, player="a", **role):
    game = make_game("kuhn_poker")
    game.reset(0)
    return ReplyRequest(
        player, roles_for(**(role or FREE))[0], game, game.observe(0), game.legal_actions(), (), random.Random(seed)
    )


def by_number(number, body):
    return completion(f"[{('pass', 'bet')[number % 2]}]")


def test_what_is_asked_again_is_not_asked_again(tmp_path):
    with Server(by_number) as server:
        replies = []
        for _ in range(2):
            with kept_in(tmp_path / "a.jsonl") as answers, Engines(answers=answers) as engines:
                engine, rng = engines.remote(name_of(server)), random.Random(7)
                asked = [request()._replace(rng=rng) for _ in range(6)]
                replies.append(([reply.text for reply in engine.sample(asked)], rng.random()))
        assert replies[0] == replies[1]  # the generator continues alike, too
        assert len(server.seen) == 6 + 2  # and a word at each start
    assert len((tmp_path / "a.jsonl").read_text().splitlines()) == 6


def test_matches_go_on_after_a_kill_and_end_as_they_would_have(tmp_path):
    """A server that dies after 20 answers: then only what is missing is asked for."""

    def play_all(server, path):
        with kept_in(path) as answers, Engines(answers=answers) as engines:
            engine = engines.remote(name_of(server))
            return play(
                kuhn_matches(20),
                roles_of=lambda _: roles_for(**FREE),
                engine_of=lambda _: engine,
                make_game=make_game,
                in_flight=4,
            )

    def by_prompt(number, body):
        return completion(f"[{('pass', 'bet')[len(body['messages'][-1]['content']) % 2]}]")

    with Server(by_prompt) as server:
        whole = play_all(server, None)
        needed = len(server.seen) - 1
        server.seen.clear()
        broken, failed = tmp_path / "broken.jsonl", False
        server.behave = lambda number, body: by_prompt(number, body) if number < 21 else _fails()
        try:
            play_all(server, broken)
        except Exception:  # noqa: BLE001  # the command would end here
            failed = True
        kept = len(broken.read_text().splitlines())
        assert failed
        assert 16 <= kept <= 20
        server.behave = by_prompt
        server.seen.clear()
        again = play_all(server, broken)
        assert len(server.seen) - 1 == needed - kept
    assert [episode.turns for episode in again] == [episode.turns for episode in whole]


def _fails():
    from support.processes.server import error

    return error(401, "the key was withdrawn")


def test_another_player_prompt_number_or_form_is_another_answer():
    plain = key_of(request(), 1)
    others = [
        key_of(request(player="b"), 1),
        key_of(request(), 2),
        key_of(request()._replace(observation="Your card: Q"), 1),
        key_of(request()._replace(refusals=(("x", "no"),)), 1),
        key_of(request(temperature=0.5, **FREE), 1),
        key_of(request(reply="choice", on_illegal="retry"), 1),
    ]
    assert len({plain, *others}) == 7
    assert key_of(request(seed=9), 1) == plain


def test_hostile_text_stays_text_and_a_line_that_a_kill_cut_is_dropped(tmp_path):
    path = tmp_path / "a.jsonl"
    with Server(lambda number, body: completion(HOSTILE)) as server:
        for _ in range(2):
            with kept_in(path) as answers, Engines(answers=answers) as engines:
                [reply] = engines.remote(name_of(server)).sample([request()])
                assert reply.text == HOSTILE
            assert len(path.read_text().splitlines()) == 1
            with path.open("ab") as file:
                file.write(b'["openai:m", "kuhn_po')
        assert len(server.seen) == 3
    with AnswerStore(path) as answers:
        assert len(answers) == 1
    assert path.read_bytes().endswith(b"]\n")


def test_a_damaged_file_and_one_in_use_are_refused(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('["too", "short"]\n')
    with pytest.raises(DamagedFile, match=r"line 1 is not an answer\). Move it away"):
        AnswerStore(path)
    path.write_text(json.dumps(["p", "g", 0, "s", "h", 3, "bet", None]) + "\n")
    with AnswerStore(path), pytest.raises(UsageError, match="Another process writes"):
        AnswerStore(path)
    with AnswerStore(path):  # and given back
        pass


def test_a_table_takes_no_request_twice(tmp_path):
    spec = make_game("kuhn_poker").spec
    with Server(by_number) as server:
        tables = []
        for _ in range(2):
            with kept_in(tmp_path / "a.jsonl") as answers, Engines(answers=answers) as engines:
                tables.append(resolve(name_of(server), spec, engines).tabulate(replies=4))
        assert tables[0] == tables[1]
        assert tables[0].counts
        assert len(server.seen) == 12 * 4 + 2 * 2  # a word at each start, and one that asks for log-probs
