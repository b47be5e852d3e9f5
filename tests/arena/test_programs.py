"""Programs at a seat: what they play is the policy's, match by match; who dies, hangs or lies loses no match."""

import threading
from collections import Counter
from itertools import pairwise

import openai
import pytest
from support.matches.kuhn import CHOICE, FREE, engine_with, kuhn_matches, kuhn_pocket, played, roles_for
from support.models.pocket import allowed_tokens, plain_logprobs, plainly
from support.processes.programs import PATIENT, play, play_plainly, programs, take

from arena.errors import EngineError
from arena.programs.sampler import FunctionTurns, ProgramSampler
from arena.records import EndReason
from learners.trajectories import to_trajectories
from roles.replies import unmasked

OWN = [
    {"role": "user", "content": "Your card: J"},
    {"role": "assistant", "content": "?"},
    {"role": "user", "content": "Q"},
]


@pytest.fixture(scope="module")
def lm():
    return kuhn_pocket()


@pytest.fixture(scope="module")
def plain(lm, tmp_path_factory):
    return plainly(lm, tmp_path_factory.mktemp("plain"))


def without_programs(lm, number=8, **form):
    matches = kuhn_matches(number, ("main", "main"))
    return played(engine_with(main=lm), matches, number, tuple(map(unmasked, roles_for(**form))))


def completion(client, seat, **fields):
    return client.chat.completions.create(model="main", **{"messages": seat["messages"], **fields})


def refused(error, status, sentence):
    return pytest.raises(error, match=f"(?s){status}.*{sentence}")


@pytest.mark.parametrize("form", [CHOICE, FREE], ids=["choice", "free"])
def test_first_answers_to_the_roles_prompt_are_the_matches_without_programs(lm, form):
    """Every token, log-prob and return, bit for bit: nothing was drawn or computed otherwise."""
    with programs(lm, **form) as run:
        play_plainly(run)
        assert run.episodes() == without_programs(lm, **form)


def test_several_programs_at_once_play_each_turn_once(lm):
    with programs(lm, number=24) as run:
        workers = [threading.Thread(target=play_plainly, args=(run,)) for _ in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert run.episodes() == without_programs(lm, number=24)
        assert run.board.counts["played"] == sum(t.seat == 0 for e in run.episodes() for t in e.turns)


def test_what_is_shown_is_what_the_role_is_shown(lm):
    with programs(lm, number=1) as run:
        seat, _ = take(run.client)
        shown = {key: seat[key] for key in ("object", "model", "game", "role", "legal", "reply", "form", "seconds")}
        assert shown == {
            "object": "seat",
            "model": "main",
            "game": "kuhn_poker",
            "role": "first",
            "legal": ["pass", "bet"],
            "reply": "choice",
            "form": "",
            "seconds": 60.0,
        }
        assert seat["observation"] in seat["messages"][-1]["content"]
        assert [one.id for one in run.client.models.list()] == ["main"]


@pytest.mark.parametrize("form", [CHOICE, FREE], ids=["choice", "free"])
def test_a_programs_own_chat_is_recorded_as_it_was_sampled(lm, plain, form):
    """Its prompt and the log-probs of plain passes over it; what the other seat draws stays as it was."""
    with programs(lm, number=1, **form) as run:
        seat, client = take(run.client)
        for _ in range(3):
            answer = completion(client, seat, messages=OWN, logprobs=True)
        play(client, completion=answer.id)
        play_plainly(run)
        [episode] = run.episodes()
    first, *others = episode.turns
    told = [score.logprob for score in answer.choices[0].logprobs.content]
    trace = first.trace
    assert trace.prompt_ids == lm.encode_prompt(OWN)
    assert (first.reply, told) == (answer.choices[0].message.content, pytest.approx(trace.logprobs, abs=1e-9))
    tokens = lm.trie(("pass", "bet")).tokens
    allowed = None if form else allowed_tokens(tokens, ("pass", "bet").index(first.reply))
    assert told == pytest.approx(plain_logprobs(plain, trace.prompt_ids, trace.reply_ids, allowed), abs=1e-4)
    [usual] = without_programs(lm, number=1, **form)
    if others and usual.turns[0].reply == first.reply:
        assert others[0] == usual.turns[1]


def test_any_completion_of_the_turn_can_be_played_and_they_differ(lm):
    with programs(lm, number=1, **FREE) as run:
        seat, client = take(run.client)
        answer = completion(client, seat, n=6)
        said = [choice.message.content for choice in answer.choices]
        assert len(set(said)) > 1
        assert play(client, completion=answer.id, choice=4) == {"object": "play", "content": said[4]}
        play_plainly(run)
        assert run.episodes()[0].turns[0].reply == said[4]


def test_a_program_that_is_started_again_gets_its_turn_and_the_same_answers(lm):
    with programs(lm, number=4) as run:
        before, old = take(run.client, "one")
        asked = [completion(old, before, messages=OWN, n=5), completion(old, before)]
        other, _ = take(run.client, "two")
        again, client = take(run.client, "one", token=before["token"])
        assert (again["match"], again["observation"]) == (before["match"], before["observation"])
        assert again["key"] not in (before["key"], other["key"])
        repeated = [completion(client, again, messages=OWN, n=5), completion(client, again)]
        assert [one.choices for one in repeated] == [one.choices for one in asked]
        with refused(openai.APIStatusError, 410, "'one' has asked for its turn again"):
            play(old, completion=asked[1].id)
        play(client, completion=repeated[1].id)
        assert run.board.counts["played"] == 1


def test_a_name_belongs_to_whoever_has_its_token(lm):
    with programs(lm, number=6) as run:
        first, _ = take(run.client, "one")
        for token in ({}, {"token": "guessed"}, {"token": first["token"][:-1]}):
            with refused(openai.PermissionDeniedError, 403, "The name 'one' belongs to another program"):
                take(run.client, "one", **token)
        assert take(run.client, "one", token=first["token"])[0]["match"] == first["match"]
        own, _ = take(run.client, "two", token="chosen by itself")
        assert own["token"] == "chosen by itself"
        with refused(openai.PermissionDeniedError, 403, "The name 'two' belongs to another program"):
            take(run.client, "two", token=first["token"])
        assert "token" not in take(run.client)[0]


def test_a_program_takes_turns_of_the_role_that_it_asks_for(lm):
    with programs(lm, seats=(0, 1), number=4) as run:
        assert take(run.client, "one", role="kuhn_poker/first")[0]["role"] == "first"
        assert take(run.client, "two", role="kuhn_poker/second", wait=0)[0]["key"] is None
        with refused(openai.PermissionDeniedError, 403, "another program"):
            take(run.client, "one", role="kuhn_poker/second")


@pytest.mark.parametrize("several", [False, True])
def test_one_name_sees_one_hand_of_a_match(lm, several):
    """In Kuhn poker whoever sees both cards wins for certain. Without a name, one is whoever else has none."""
    limits = PATIENT._replace(several_seats=several)
    for name in ("one", ""):
        with programs(lm, limits, seats=(0, 1), number=1) as run:
            seat, client = take(run.client, name)
            token = {"token": seat["token"]} if name else {}
            play(client, completion=completion(client, seat).id)
            other, _ = take(run.client, name, wait=1, **token)
            assert (other["key"] is not None) == several
            if not several:
                assert take(run.client, "another")[0]["role"] == "second"


def test_a_turn_that_is_handed_to_somebody_who_has_gone_is_offered_again(lm):
    with programs(lm, number=1) as run:
        seat, client = take(run.client)
        run.board.give_back(seat["key"])
        again, client = take(run.client)
        assert again["match"] == seat["match"]
        play(client, completion=completion(client, again).id)


def test_what_nobody_waits_for_is_not_computed_and_counts_as_asked(lm):
    computed = []
    with programs(lm, number=1) as run:
        seat, client = take(run.client)
        compute = run.sampler._engine.sample
        run.sampler._engine.sample = lambda requests: (computed.extend(requests), compute(requests))[1]
        with run.board._changed:  # so that nothing is computed before it is given up
            asked = run.board.complete(seat["key"], OWN, None, 6)
            assert all(future.cancel() for future in asked)
        with refused(openai.PermissionDeniedError, 403, "at most 8 completions"):
            completion(client, seat, n=3)
        play(client, completion=completion(client, seat, messages=OWN).id)
        assert len([request for request in computed if request.chat]) == 1
        assert run.board.counts["played"] == 1
        play_plainly(run)


def test_a_turn_that_is_too_late_is_forfeited_and_its_key_refused(lm):
    """Kuhn poker's worst is −2; the other seat has what the offender lost."""
    with programs(lm, PATIENT._replace(seconds=0.3), number=2) as run:
        late, client = take(run.client)
        answer = completion(client, late)
        play_plainly(run)
        forfeits = [episode for episode in run.episodes() if episode.end is EndReason.FORFEIT]
        assert [(e.returns, e.offender, e.turns[-1].trace) for e in forfeits] == [((-2.0, 2.0), 0, None)]
        assert run.board.counts["forfeited"] == 1
        with refused(openai.APIStatusError, 410, "0.3 seconds are over .programs.seconds.: it is forfeited"):
            play(client, completion=answer.id)


def test_where_nobody_takes_a_turn_it_is_forfeited_after_the_time_for_that(lm):
    with programs(lm, PATIENT._replace(absence=0.1), number=3) as run:
        assert Counter(episode.end for episode in run.episodes()) == {EndReason.FORFEIT: 3}


def test_lies_are_refused_and_the_turn_goes_on(lm):
    with programs(lm, number=2) as run:
        seat, client = take(run.client)
        other_seat, other = take(run.client)
        with refused(openai.UnprocessableEntityError, 422, "none of this turn's 0 completions"):
            play(client, content="bet")
        answer, elsewhere = completion(client, seat), completion(other, other_seat)
        said = answer.choices[0].message.content
        for lie in (
            {"content": {"bet": "pass", "pass": "bet"}[said]},
            {"completion": elsewhere.id},
            {"completion": answer.id, "choice": 1},
            {"completion": "chatcmpl-0"},
        ):
            with refused(openai.UnprocessableEntityError, 422, "none of this turn's 1 completions"):
                play(client, **lie)
        assert run.board.counts["refused"] == 5
        assert play(client, content=said)["content"] == said
        with refused(openai.APIStatusError, 410, "played already"):
            play(client, content=said)
        with refused(openai.AuthenticationError, 401, "The API key belongs to no turn"):
            play(run.client, content=said)


@pytest.mark.parametrize(
    ("fields", "error", "sentence"),
    [
        ({"temperature": 0.5}, openai.BadRequestError, "temperature = 0.5 differs from the role's, 1.0"),
        ({"top_p": 0.5}, openai.BadRequestError, "top_p = 0.5 differs from the role's, 1.0"),
        ({"seed": 1}, openai.BadRequestError, "the run's seeds decide"),
        ({"top_logprobs": 2, "logprobs": True}, openai.BadRequestError, "top_logprobs is not supported"),
        ({"model": "other"}, openai.NotFoundError, "There is no model 'other' here, only main"),
        ({"n": 9}, openai.PermissionDeniedError, "at most 8 completions .programs.completions."),
        ({"messages": []}, openai.BadRequestError, "messages"),
        ({"stop": ["x"]}, openai.BadRequestError, "stop is not supported here"),
        ({"extra_body": {"structured_outputs": {"choice": ["bet"]}}}, openai.BadRequestError, "one of pass, bet"),
    ],
)
def test_what_would_sample_otherwise_is_refused(lm, fields, error, sentence):
    with programs(lm, number=1) as run:
        seat, client = take(run.client)
        with pytest.raises(error, match=sentence):
            client.chat.completions.create(**{"model": "main", "messages": seat["messages"], **fields})


def test_a_chat_that_the_model_cannot_read_is_refused_and_the_run_goes_on(lm):
    lm.context = 40
    try:
        with programs(lm, number=1) as run:
            seat, client = take(run.client)
            with refused(openai.BadRequestError, 400, "but .* reads at most 40"):
                completion(client, seat, messages=[{"role": "user", "content": "Your card: J " * 40}])
            play(client, completion=completion(client, seat, messages=OWN).id)
            play_plainly(run)
            assert run.episodes()[0].end is EndReason.FINISHED
    finally:
        lm.context = None


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "sentence"),
    [
        ("post", "/seats/play", {}, 400, "The body should be"),
        ("post", "/seats/play", {"completion": 3}, 400, "The body should be"),
        ("post", "/seats/none", {}, 404, "There is no POST '/v1/seats/none' here: only GET /v1/models"),
        ("get", "/seats", None, 404, "There is no GET '/v1/seats' here"),
        ("get", "/seats/next?wait=1", None, 405, "There is no GET '/v1/seats/next' here: this page takes POST, with a"),
        ("post", "/seats/next", {"wait": "long"}, 400, "wait = 'long': it should be a valid integer"),
        ("post", "/seats/next", {"program": "x" * 201}, 400, "program = .* at most 200 characters"),
        ("post", "/seats/next", {"programm": "one"}, 400, "no key named 'programm'. Did you mean program"),
        ("post", "/seats/next", {"role": "kuhn_poker/third"}, 400, "Programs take the turns of kuhn_poker/first here"),
    ],
)
def test_wrong_requests_are_refused_with_a_sentence(lm, method, path, body, status, sentence):
    with programs(lm, number=1) as run:
        _, client = take(run.client)
        run.server.roles = ("kuhn_poker/first",)
        with refused(openai.APIStatusError, status, sentence):
            getattr(client, method)(path, cast_to=dict[str, object], **({"body": body} if body is not None else {}))


def test_a_function_takes_turns_as_a_program_does_and_its_failures_name_it(lm):
    def sampler(program):
        return ProgramSampler(
            engine_with(main=lm), FunctionTurns(program), {"main": lm}, lambda request: request.role.seat == 0
        )

    matches = kuhn_matches(8, ("main", "main"))
    assert played(sampler(lambda seat: seat.complete()), matches, 8, roles_for()) == without_programs(lm)

    def liar(seat):
        return f"not {seat.complete()}"

    with pytest.raises(EngineError, match=r"The program liar plays 'not .*', which is none of its 1 completions"):
        played(sampler(liar), matches, 8, roles_for())
    with pytest.raises(EngineError, match="failed: ZeroDivisionError"):
        played(sampler(lambda seat: 1 / 0), matches, 8, roles_for())


def test_nothing_is_learned_from_a_forfeited_turn_and_its_cost_is_kept(lm):
    """A return of −2 over a scale of 2 is −1, with no turn, or with the turn before it."""
    with programs(lm, PATIENT._replace(seconds=0.2), number=12) as run:
        turns = Counter()
        while run.thread.is_alive():
            seat, client = take(run.client, wait=0)
            if seat["key"] is not None:
                turns[seat["match"]] += 1
                if turns[seat["match"]] == 1 and seat["match"] % 2:
                    play(client, completion=completion(client, seat).id)
        episodes = run.episodes()
    trajectories = to_trajectories(episodes, lambda _: roles_for(), {"kuhn_poker": 2.0})
    mine = [(t, e) for t in trajectories if t.seat == 0 for e in episodes if e.request.index == t.match]
    assert {len(t.turns) for t, e in mine if e.offender == 0} == {0, 1}
    for trajectory, episode in mine:
        assert all(turn.trace is not None for turn in trajectory.turns)
        assert len(trajectory.order) == len(trajectory.rewards) == len(trajectory.turns)
        assert all(a < b for a, b in pairwise(trajectory.order))
        if episode.offender == 0:
            assert trajectory.match_return == -1.0
            assert trajectory.turns == () or sum(trajectory.rewards) == -1.0
