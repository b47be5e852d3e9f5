"""lookup_chain: every question has one answer, scripts score as they should, rewards are those of M-GRPO."""

from functools import cache
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.models.pocket import pocket

from arena.records import Cast, MatchRequest, flatten_episodes
from arena.samplers.scripted import Random, Script
from arena.samplers.torch_lm import TorchLM
from arena.scheduler import play
from games.common.errors import UsageError
from games.common.seeds import derive_seed
from games.native.knowledge import Fact, KnowledgeBase, knowledge_base
from games.registry import make_game, with_submatches
from learners.batching import to_batch
from learners.trajectories import to_trajectories
from roles.cards import load_roles, with_overrides
from roles.chat_text import plain_text
from roles.prompts import messages

SMALL = "lookup_chain(people=6,relations=2)"
GRADED = [
    SMALL,
    "lookup_chain",
    "lookup_chain(hops=6)",
    "lookup_chain(hops=6,people=24)",
    "lookup_chain(hops=4,side=2)",
]


def matches(game, number, players=("p", "w"), trained=False, seed=0):
    planner, worker = players
    cast = (Cast(make_game(game).spec.submatch_games[0], (worker,), (trained,)),)
    return [
        MatchRequest(i, game, derive_seed(seed, i), derive_seed(seed, i, 1), (planner,), (trained,), cast=cast)
        for i in range(number)
    ]


def played(game, number, planner, worker=None, **changes):
    engines = {"p": planner, "w": worker or planner}
    return play(
        matches(game, number),
        roles_of=lambda name: tuple(with_overrides(r, **changes) for r in load_roles(make_game(name).spec)),
        engine_of=engines.__getitem__,
        make_game=make_game,
        in_flight=64,
    )


def mean_return(episodes):
    return fmean(episode.returns[0] for episode in episodes)


@pytest.mark.parametrize("game", GRADED)
def test_the_optimal_team_is_always_right_and_the_poor_one_and_chance_are_not(game):
    optimal = played(game, 60, Script("optimal"))
    assert {episode.returns for episode in optimal} == {(1.0,)}
    assert {child.returns for episode in optimal for child in episode.children} <= {(1.0,)}
    assert mean_return(played(game, 200, Script("poor"))) < 0.5
    assert mean_return(played(game, 200, Random())) < 0.35


def test_some_questions_need_no_worker_and_some_need_six():
    needed = [len(episode.children) for episode in played("lookup_chain(hops=6)", 300, Script("optimal"))]
    assert set(needed) == set(range(7))
    harder = [mean_return(played(f"lookup_chain(hops={h})", 150, Script("optimal"), Script("poor"))) for h in (1, 6)]
    assert harder[1] < harder[0]


def test_scripts_play_with_free_replies_too():
    episodes = played("lookup_chain(hops=3)", 40, Script("optimal"), reply="free", max_reply_tokens=8)
    assert mean_return(episodes) == 1.0
    assert {turn.tool for member in flatten_episodes(episodes) for turn in member.turns} == {"", "search"}


def test_rewards_are_those_of_m_grpo():
    cases = set()
    for planner, worker in (("optimal", "optimal"), ("optimal", "poor"), ("poor", "optimal"), ("poor", "poor")):
        for episode in played("lookup_chain", 60, Script(planner), Script(worker)):
            base = knowledge_base(episode.request.deal_seed, 12, 6)
            question = episode.turns[0].observation.splitlines()[-1].split(" of ")
            person = question[-1]
            for relation in reversed(question[:-1]):
                person = base.answers[Fact(relation, person)]
            correct = episode.turns[-1].action == f"answer {person}"
            assert episode.returns == (0.1 + 0.9 * correct,)
            for child in episode.children:
                expert = child.outcome == base.answers[Fact(*child.request.task.split(" of "))]
                assert child.returns == (pytest.approx(0.1 + 0.4 * correct + 0.5 * expert),)
                cases.add((correct, expert))
    assert cases >= {(True, True), (False, True), (False, False)}


def test_a_reply_that_is_not_in_the_form_of_an_answer_pays_nothing():
    class Mute(Random):
        def sample(self, requests):
            return [reply._replace(text="hm") for reply in super().sample(requests)]

    (episode, *_) = played(SMALL, 1, Mute(), reply="free", on_illegal="forfeit")
    assert episode.returns == (0.0,)
    for episode in played(SMALL, 20, Script("optimal"), Mute(), reply="free", on_illegal="forfeit"):
        assert {child.returns for child in episode.children} <= {(0.0,)}
        assert episode.children == () or "unknown" in episode.turns[-1].observation


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 2**63 - 1), people=st.integers(4, 24), relations=st.integers(1, 6))
def test_search_finds_the_sentence_that_answers_and_questions_have_one_answer(seed, people, relations):
    base = KnowledgeBase(seed, people, relations)
    for relation in base.relations:
        assert sorted(base.answers[Fact(relation, person)] for person in base.people) == sorted(base.people)
        assert all(base.answers[Fact(relation, person)] != person for person in base.people)
        for person in base.people[:4]:
            sentences = base.search(f"{relation} of {person}").splitlines()
            assert f"{relation} of {person} is {base.answers[Fact(relation, person)]}" in sentences[:2]
            assert len(sentences) == 3
    assert base.search("") == base.search("?!") == "nothing found"
    assert base.search('nobody " OR * NEAR(') == "nothing found"


@cache
def texts():
    prompts_and_replies = [
        plain_text(messages(load_roles(make_game(member.request.game).spec)[0], turn.observation, turn.legal))
        + turn.reply
        for member in flatten_episodes(played(SMALL, 60, Random()))
        for turn in member.turns
    ]
    return tuple(prompts_and_replies)


@pytest.mark.parametrize("form", [{}, {"reply": "free", "on_illegal": "retry", "max_reply_tokens": 4}])
def test_replies_are_trained_and_no_token_of_a_tools_output(form):
    lm = pocket(0, texts=texts(), vocabulary=420)
    engine = TorchLM()
    engine.add("p", lm)
    roles = {
        name: tuple(with_overrides(role, **form) for role in load_roles(make_game(name).spec))
        for name in with_submatches([SMALL])
    }
    episodes = play(
        matches(SMALL, 40, ("p", "p"), trained=True),
        roles_of=roles.__getitem__,
        engine_of=lambda _: engine,
        make_game=make_game,
        in_flight=40,
    )
    turns = [turn for member in flatten_episodes(episodes) for turn in member.turns]
    trajectories = to_trajectories(episodes, roles.__getitem__, dict.fromkeys(roles, 1.0))
    batch = to_batch("p", trajectories, [[1.0] * len(trajectory.turns) for trajectory in trajectories], {}, merge=False)
    assert batch.turns == len(turns)
    calls = [turn for turn in turns if turn.tool]
    for turn in turns:
        assert lm.decode(turn.trace.reply_ids) == turn.reply
    if form:
        assert sorted(row.reply for row in batch.free) == sorted(turn.trace.reply_ids for turn in turns)
        return
    assert calls
    assert sum(sum(row.counts) for row in batch.choice) == sum(len(turn.legal) > 1 for turn in turns)
    outputs = {line for turn in turns for line in turn.observation.splitlines()}
    drawn = {reply for row in batch.choice for reply, count in zip(row.legal, row.counts, strict=True) if count}
    assert not any(line in reply for reply in drawn for line in outputs if " is " in line)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lookup_chain(hops=7)", "a chain has 1 to 6 hops"),
        ("lookup_chain(people=3)", "people = 3: a knowledge base has 4 to 24 people"),
        ("lookup(relations=7)", "relations = 7: a knowledge base has 1 to 6 relations"),
        ("lookup_chain(hops=2)", "it is written 'lookup_chain'"),
        ("lookup_chain(relations=2,people=6)", "it is written 'lookup_chain\\(people=6,relations=2\\)'"),
        ("lookup_chain(hop=3)", "'hop=3' is not one of its parameters"),
        ("lookup_chain(hops=two)", "'hops=two' is not one of its parameters"),
        ("lookup_chain(hops=3", "'hops=3' is not one of its parameters"),
    ],
)
def test_a_name_that_makes_no_game_is_refused(name, message):
    with pytest.raises(UsageError, match=message):
        make_game(name)


@pytest.mark.parametrize("game", ["lookup_chain", "lookup_chain(hops=4,side=2)"])
def test_one_observation_has_one_list_of_legal_actions(game):
    """A fact may stand in the notes or be a worker's answer, and only the second counts against the questions."""
    match, lists = make_game(game), set()
    match.reset(0)
    while match.legal_actions()[0].startswith("ask"):
        match.apply(match.legal_actions()[0])
        match.record_outcomes(["Jim"] * len(match.submatches()))
        noted = match.copy()
        noted._asked = noted._asked[1:]  # as if the first fact had been in the notes
        lists.add((match.observe(0), match.legal_actions()))
        lists.add((noted.observe(0), noted.legal_actions()))
    assert len({observation for observation, _ in lists}) == len(lists)
