"""Slots of cards: what seats are shown is rewritten by rules, and texts are written as turns that make no move."""

import itertools
import json
import random
import re
from math import prod

import pytest
from support.matches.contexts import WORDS, Reader, Solver, gaps, matches, with_slots
from support.matches.kuhn import engine_with
from support.models.pocket import pocket

from arena.contexts import request_in
from arena.errors import EngineError
from arena.records import Cast, MatchRequest, Reply
from arena.replays import episode_from_record, episode_to_record
from arena.samplers.scripted import Always, Random, Script
from arena.scheduler import play
from arena.submatches import play_again, positions
from games.common.errors import UsageError
from games.registry import make_game
from roles.cards import load_roles
from roles.prompts import messages

RECALL = load_roles(make_game("recall").spec)[0]
SUMMARY = {"rule": "summary", "entries": 2, "choices": WORDS}
FREE = {"rule": "summary", "entries": 2}


def recalled(slots, number=200):
    """Return the mean return of the reader with these slots, the episodes and what it saw."""
    reader = Reader()
    episodes = matches("recall", [reader], (with_slots(RECALL, **slots),), number=number)
    return sum(e.returns[0] for e in episodes) / number, episodes, reader.shown


def test_a_planted_fact_is_at_chance_by_the_window_and_certain_by_a_summary():
    chance, episodes, shown = recalled({"earlier": {"rule": "window", "entries": 2}})
    assert chance == pytest.approx(1 / 4, abs=0.093)  # three standard errors of 200 matches
    assert not any("keep" in text for text in shown if "Which word" in text)
    assert max(text.count("\n") for text in shown) == 2
    for slot in (SUMMARY, FREE):
        sure, episodes, shown = recalled({"earlier": slot})
        assert sure == 1.0
        assert [turn.tool for turn in episodes[0].turns] == ["", "", "", "earlier", "", ""]
        assert max(text.count("\n") for text in shown) <= 3, "no prompt holds more than a summary and what came since"


def test_what_was_written_is_a_turn_that_makes_no_move_and_survives_the_disk():
    _, episodes, _ = recalled({"earlier": SUMMARY}, number=2)
    for episode in episodes:
        game = make_game("recall")
        play_again(game, episode)
        assert game.returns() == episode.returns
        assert sum(turn.reward for turn in episode.turns) == episode.returns[0]
        written = next(turn for turn in episode.turns if turn.tool)
        assert (written.legal, written.action) == (WORDS, written.reply)
        assert written.action in episode.turns[-1].observation
        stored = episode_from_record(json.loads(json.dumps(episode_to_record(episode))))
        assert stored == episode


def test_texts_of_another_role_are_quoted_and_recorded_as_its_own():
    roles = load_roles(make_game("repeated_kuhn_poker(hands=1)").spec)
    plan = {"rule": "plan", "by": roles[1].name, "choices": ("bet now",)}
    roles = (with_slots(roles[0], "Advice: {plan}\n{observation}\nLegal: {legal}", plan=plan), roles[1])
    [episode] = matches("repeated_kuhn_poker(hands=1)", [Random(), Random()], roles)
    first, second = episode.turns[:2]
    assert (first.seat, first.player, first.role, first.tool) == (1, "p1", roles[1].name, "plan")
    assert second.observation.startswith('Advice: "bet now"\nHand 1 of 1')


@pytest.mark.parametrize("game", ["repeated_kuhn_poker(hands=4)", "find_number"])
def test_who_asks_about_a_position_asks_as_a_match_does(game):
    """Of a list of actions what a window leaves, and words of who speaks; a teacher or an audit asks so."""
    roles = load_roles(make_game(game).spec)
    if not make_game(game).spec.free_text:
        roles = tuple(with_slots(role, earlier={"rule": "window", "entries": 1}) for role in roles)
    asked = []

    class Asked(Random):
        def sample(self, requests):
            asked.extend(requests)
            return super().sample(requests)

    [episode] = matches(game, [Asked()] * len(roles), roles)
    requests = [
        request_in(f"p{position.to_act()}", roles[position.to_act()], position, rng)._replace(game=None, rng=None)
        for rng in [random.Random(0)]
        for position in positions(make_game(game), episode)
        if position.to_act() is not None
    ]
    assert requests == [request._replace(game=None, rng=None) for request in asked]


def test_lines_of_empty_slots_are_left_out_and_prompts_show_what_the_turn_saw():
    role = with_slots(RECALL, "Notes: {notes}\n{observation}\nLegal: {legal}", notes={"rule": "notes"})
    engine = Random()
    [plain] = matches("recall", [engine], (RECALL,))
    [empty] = matches("recall", [engine], (role,))
    moves = [turn for turn in empty.turns if not turn.tool]
    assert [turn.observation for turn in moves] == [turn.observation for turn in plain.turns]
    assert [turn.reply for turn in moves] == [turn.reply for turn in plain.turns]
    [given] = matches("recall", [engine], (role,), given=((0, "notes", "Say red."),))
    assert given.turns[0].observation.startswith("Notes: Say red.\nTurn 1")
    asked = messages(role, given.turns[0].observation, given.turns[0].legal)
    assert asked[-1]["content"] == f"{given.turns[0].observation}\nLegal: next"


def test_notes_are_asked_for_at_the_end_and_see_the_match():
    class Writes(Random):
        def sample(self, requests):
            return [Reply("They said blue. ") if r.probe else super(Writes, self).sample([r])[0] for r in requests]

    role = with_slots(RECALL, "{notes}\n{observation}\nLegal: {legal}", notes={"rule": "notes", "most_characters": 9})
    [episode] = matches("recall", [Writes()], (role,))
    assert (episode.turns[-1].tool, episode.turns[-1].action) == ("notes", "They said")
    assert "You said" in episode.turns[-1].observation
    assert episode.turns[-1].reward == 0.0


def test_no_hint_is_in_any_prompt_of_a_seat_that_does_not_learn(monkeypatch):
    monkeypatch.setattr(type(make_game("recall")), "hint", lambda game, _: f"HINT {game._dealt[0]}", raising=False)
    role = with_slots(RECALL, "{hint}\n{observation}\nLegal: {legal}", hint={"rule": "hint"})
    reader = Reader()
    matches("recall", [reader], (role,), number=20)
    assert not any("HINT" in text for text in reader.shown)
    matches("recall", [reader], (role,), number=1, trained=True)
    assert any("HINT" in text for text in reader.shown)


@pytest.mark.parametrize(("game", "p"), [("retried(sums,attempts=4)", 0.3), ("retried(find_number)", 0.65)])
def test_success_by_attempt_is_the_closed_form_over_all_courses_of_a_solver(game, p):
    """Whoever solves an attempt with probability p: every course of failures and successes, weighed exactly."""
    attempts = make_game(game)._most
    for seed in range(5):
        solved = [0.0] * (attempts + 1)
        for course in itertools.product((False, True), repeat=attempts):
            match = make_game(game)
            match.reset(seed)
            while match.to_act() is not None:
                now = match.attempt
                match.apply(match.scripts()["optimal" if course[now - 1] else "poor"](random.Random(0)))
            weight = prod(p if success else 1 - p for success in course)
            used = len(match._over)
            for k in range(1, attempts + 1):
                solved[k] += weight * (match.returns() == (1.0,) and used <= k)
        assert solved[1:] == pytest.approx([1 - (1 - p) ** k for k in range(1, attempts + 1)], abs=1e-12)


def test_success_by_attempt_of_a_solver_that_is_played_is_the_closed_form():
    p, number = 0.4, 400  # three standard errors
    episodes = matches("retried(sums)", [Solver(p)], number=number)
    used = [int(re.search(r"Attempt (\d) of", e.turns[-1].observation)[1]) for e in episodes]
    for attempt in (1, 2, 3):
        rate = sum(e.returns[0] == 1.0 and n <= attempt for e, n in zip(episodes, used, strict=True)) / number
        assert rate == pytest.approx(1 - (1 - p) ** attempt, abs=0.075), attempt


@pytest.mark.parametrize(("pays", "paid"), [(0, 1.0), (1, 1.0), (2, 1.0)])
def test_what_attempts_pay(pays, paid):
    game = make_game(f"retried(sums,attempts=2,pays={pays})" if pays != 1 else "retried(sums,attempts=2)")
    game.reset(5)
    while game.to_act() is not None:
        game.apply(game.scripts()["poor" if game.attempt == 1 else "optimal"](random.Random(0)))
    assert game.returns() == (paid,)
    assert "Attempt 1: " in game.observe(0)
    game.reset(5)
    while game.to_act() is not None:
        game.apply(game.scripts()["optimal"](random.Random(0)))
    assert game.returns() == ((0.0,) if pays == 2 else (1.0,))


def test_a_reflection_is_written_before_each_attempt_but_the_first():
    spec = make_game("retried(sums)").spec
    table = {"rule": "reflection", "choices": ("carry", "do not carry")}
    role = with_slots(
        load_roles(spec)[0],
        "{earlier}\n{notes}\n{observation}\nLegal: {legal}",
        earlier={"rule": "window", "entries": 1},
        notes=table,
    )
    [episode] = matches("retried(sums)", [Script("poor")], (role,), seed=3)
    told = [turn for turn in episode.turns if turn.tool]
    assert len(told) == 2
    after = episode.turns[episode.turns.index(told[1]) + 1].observation.split("\n")
    assert after[0].startswith("Attempt 2: ")
    assert after[1] == "carry"


class Obeys:
    """Plays the advice that it is shown, and else at random; ``deaf`` ignores it."""

    def __init__(self, deaf=False):
        self.deaf = deaf

    def sample(self, requests):
        return [Reply(self._one(request)) for request in requests]

    def _one(self, request):
        drawn = request.legal[int(request.rng.random() * len(request.legal))]
        said = [action for action in request.legal if f'"{action}"' in request.observation]
        return said[0] if said and not self.deaf else drawn


def advised(deaf, number):
    """Return episodes of ``advised(repeated_kuhn_poker(hands=1),form=1)``, whose adviser says bet."""
    name = "repeated_kuhn_poker(hands=1)"
    inner = load_roles(make_game(name).spec)
    inner = (with_slots(inner[0], "{plan}\n{observation}\nLegal: {legal}", plan={"rule": "plan"}), inner[1])
    outer = load_roles(make_game(f"advised({name},form=1)").spec)
    players = {"adviser": Always("bet"), "advised": Obeys(deaf), "other": Always("bet")}
    cast = (Cast(name, ("advised", "other"), (True, False)),)
    outside = f"advised({name},form=1)"
    requests = [MatchRequest(i, outside, i, i, ("adviser",), (True,), cast=cast) for i in range(number)]
    roles = {name: inner, outside: outer}
    return play(requests, roles_of=roles.__getitem__, engine_of=players.__getitem__, make_game=make_game)


def test_advice_that_changes_nothing_is_paid_exactly_nothing():
    episodes = advised(deaf=True, number=60)
    assert {e.returns for e in episodes} == {(0.0,)}
    assert any(e.children[0].returns[0] != 0 for e in episodes)


def test_advice_is_paid_what_it_changes_on_the_same_deal_and_draws():
    episodes = advised(deaf=False, number=60)
    for episode in episodes:
        told, untold = episode.children
        assert told.request.deal_seed == untold.request.deal_seed == episode.request.deal_seed
        assert told.request.sample_seed == untold.request.sample_seed
        assert episode.returns[0] == told.returns[0] - untold.returns[0]
        assert '"bet"' in told.turns[0].observation
        assert '"bet"' not in untold.turns[0].observation
    assert len({e.returns for e in episodes}) > 1


@pytest.mark.parametrize(
    ("prompt", "slots", "says"),
    [
        ("{earlier} {observation}", {}, "which nothing fills"),
        ("{observation}", {"notes": {"rule": "notes"}}, "no {notes}"),
        ("{notes}\n{legal}\n{observation}", {"notes": {"rule": "notes"}}, "between them"),
        ("{notes}\n{observation}", {"notes": {"rule": "note"}}, "note"),
        ("{notes}\n{observation}", {"thoughts": {"rule": "notes"}}, "there is no slot 'thoughts'"),
        ("{earlier}\n{observation}", {"earlier": {"rule": "window", "size": 3}}, "size"),
    ],
)
def test_a_wrong_card_is_refused_with_the_remedy(prompt, slots, says):
    with pytest.raises((UsageError, ValueError), match=says.replace("{", r"\{")):
        with_slots(RECALL, prompt, **slots)


def test_a_game_that_does_not_tell_its_past_apart_is_refused_by_name():
    role = with_slots(load_roles(make_game("kuhn_poker").spec)[0], earlier={"rule": "window"})
    roles = (role, load_roles(make_game("kuhn_poker").spec)[1])
    with pytest.raises((UsageError, EngineError), match="kuhn_poker does not separate"):
        matches("kuhn_poker", [Random(), Random()], roles)


def test_a_conversation_outgrows_its_context_only_where_no_rule_is_set():
    engine = engine_with(p0=pocket(context=200))
    with pytest.raises(UsageError, match=r"reads at most 200.*a rule such as window"):
        matches("recall(turns=40)", [engine], (RECALL,))
    for slot in ({"rule": "window", "entries": 2}, SUMMARY):
        [episode] = matches("recall(turns=40)", [engine], (with_slots(RECALL, earlier=slot),))
        assert max(len(turn.trace.prompt_ids) for turn in episode.turns) <= 200
        assert sum(not turn.tool for turn in episode.turns) == 40


@pytest.mark.parametrize("reply", ["choice", "free"])
def test_the_learners_log_probs_are_those_of_what_was_seen(reply):
    """Under rewritten contexts, of texts and of moves."""
    lm = pocket()
    summary = SUMMARY if reply == "choice" else {"rule": "summary", "entries": 1, "most_tokens": 6}
    episodes = matches("recall", [engine_with(p0=lm)], (with_slots(RECALL, earlier=summary),), number=8)
    traces = [turn.trace for episode in episodes for turn in episode.turns]
    assert sum(bool(turn.tool) for turn in episodes[0].turns) >= 1
    assert max(gaps(lm, traces)) < 1e-5  # nats a reply
