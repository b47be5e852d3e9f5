"""Matches that begin in their middle, with the deal and the actions of a match that was played."""

import json

import pytest
from support.matches.contexts import with_slots
from support.source import ROOT

from arena.records import Cast, MatchRequest, Reply
from arena.replays import episode_from_record, episode_to_record
from arena.samplers.scripted import Always, Random
from arena.scheduler import play
from arena.submatches import middle
from games.common.errors import UsageError
from games.registry import make_game, with_submatches
from roles.cards import load_roles

ROLES = load_roles(make_game("leduc_poker").spec)


def played(requests, engine=None):
    engine = engine or Random()
    return play(requests, roles_of=lambda _: ROLES, engine_of=lambda _: engine, make_game=make_game)


def whole(index):
    return MatchRequest(index, "leduc_poker", 100 + index, index, ("a", "b"), (True, True))


def test_a_match_goes_on_from_its_middle_with_its_deal():
    """Before its last action, which is then played again, and after it, when there is nothing left to play."""
    for episode in played([whole(index) for index in range(20)]):
        actions = tuple(turn.action for turn in episode.turns)
        for length in (len(actions) - 1, len(actions)):
            [rest] = played([episode.request._replace(prefix=actions[:length])], Always(actions[-1]))
            assert rest.returns == episode.returns
            assert [turn.action for turn in rest.turns] == list(actions[length:])
            assert [turn.observation for turn in rest.turns] == [turn.observation for turn in episode.turns[length:]]


def test_no_prefix_leaves_records_as_they_were_and_one_is_read_back():
    [episode] = played([whole(0)])
    assert "prefix" not in episode_to_record(episode)["request"]
    [rest] = played([whole(0)._replace(prefix=(episode.turns[0].action,))])
    assert episode_from_record(json.loads(json.dumps(episode_to_record(rest)))) == rest


def test_an_action_that_is_not_legal_there_is_refused():
    with pytest.raises(UsageError, match="its action 1 is not legal there"):
        played([whole(0)._replace(prefix=("nonsense",))])


class Echo:
    """Replies in turn what a match's turns replied, and plays at random in the matches that it opens."""

    def __init__(self, turns, game):
        self._left, self._game = list(turns), game

    def sample(self, requests):
        return [self._one(request) for request in requests]

    def _one(self, request):
        if request.game.spec.name != self._game:
            return Random().sample([request])[0]
        return Reply(self._left.pop(0).reply)


def slotted(folder="slots"):
    game = "repeated_kuhn_poker(hands=4)"
    return game, {game: load_roles(make_game(game).spec, ROOT / "tests" / "data" / folder)}


def cast_of(game):
    names = with_submatches([game])
    seats = {name: make_game(name).spec.seats for name in names}
    return names, tuple(Cast(name, ("a",) * seats[name], (True,) * seats[name]) for name in names[1:])


@pytest.mark.parametrize(
    "game",
    [
        "repeated_kuhn_poker(hands=4)",
        "retried(sums,attempts=4)",
        "recall",
        "lookup_chain",
        "advised(repeated_kuhn_poker(hands=1),form=1)",
        "propose_sums(tasks=2)",
    ],
)
def test_a_match_goes_on_from_every_turn_with_what_was_written_and_opened_before(game):
    """Cards with every kind of text, and games with submatches: what comes after is what came after."""
    names, cast = cast_of(game)
    roles = {name: load_roles(make_game(name).spec) for name in names}
    if game.startswith("repeated"):
        roles |= slotted()[1]
    if game.startswith("retried"):
        table = {"rule": "reflection", "choices": ("carry", "do not carry")}
        roles[game] = (with_slots(roles[game][0], "{notes}\n{observation}\nLegal: {legal}", notes=table),)
    if game == "recall":
        table = {"rule": "summary", "entries": 1, "choices": ("one", "two", "three")}
        roles[game] = (with_slots(roles[game][0], earlier=table),)

    def goes(request, engine):
        [episode] = play([request], roles_of=roles.__getitem__, engine_of=lambda _: engine, make_game=make_game)
        return episode

    seats, texts, opened = make_game(game).spec.seats, 0, 0
    for index in range(6):
        request = MatchRequest(index, game, 50 + index, index, ("a",) * seats, (True,) * seats, cast=cast)
        whole = goes(request, Random())
        for turn in range(len(whole.turns) + 1):
            rest = goes(middle(whole, turn), Echo(whole.turns[turn:], game))
            assert [t._replace(reward=0.0) for t in rest.turns] == [t._replace(reward=0.0) for t in whole.turns[turn:]]
            assert rest.returns == whole.returns
            children = whole.children[len(whole.children) - len(rest.children) :]
            assert [(c.turns, c.returns) for c in rest.children] == [(c.turns, c.returns) for c in children]
            twice = middle(rest, len(rest.turns))
            assert (twice.prefix, twice.texts) == (middle(whole, 99).prefix, middle(whole, 99).texts)
            again = goes(twice, Echo((), game))
            assert (again.turns, again.returns) == ((), whole.returns)
            stored = episode_from_record(json.loads(json.dumps(episode_to_record(rest))))
            assert stored == rest
        texts += sum(bool(t.tool) for t in whole.turns)
        opened += len(whole.children)
    assert bool(texts) == (game in ("recall", "repeated_kuhn_poker(hands=4)") or game.startswith("retried"))
    assert bool(opened) == bool(cast)


def test_a_text_that_nobody_asked_for_and_a_missing_attempt_are_refused():
    game, roles = slotted()
    request = MatchRequest(0, game, 1, 1, ("a", "a"), (True, True))

    def goes(request, roles=roles):
        engine = Random()
        return play([request], roles_of=roles.__getitem__, engine_of=lambda _: engine, make_game=make_game)[0]

    whole = goes(request)
    last = middle(whole, len(whole.turns))
    for texts in [(*last.texts, (1, "more")), (*last.texts, (99, "late"))]:
        with pytest.raises(UsageError, match=r"a text that no slot asked for after (1|99) actions"):
            goes(last._replace(texts=texts))
    names, cast = cast_of("lookup_chain")
    found = {name: load_roles(make_game(name).spec) for name in names}
    whole = goes(MatchRequest(0, "lookup_chain", 3, 3, ("a",), (True,), cast=cast), found)
    assert whole.children
    with pytest.raises(UsageError, match=r"where \d submatches were over, but it has attempts at 0"):
        goes(middle(whole, len(whole.turns))._replace(attempts=()), found)


@pytest.mark.parametrize("game", ["lookup_chain", "propose_sums(tasks=3)"])
def test_what_goes_on_otherwise_goes_on_again_from_its_own_middle(game):
    """The submatches of the match that it came from are not among its own."""
    names, cast = cast_of(game)
    roles = {name: load_roles(make_game(name).spec) for name in names}

    def goes(request, engine):
        [episode] = play([request], roles_of=roles.__getitem__, engine_of=lambda _: engine, make_game=make_game)
        return episode

    differing = 0
    for index in range(6):
        whole = goes(MatchRequest(index, game, 50 + index, index, ("a",), (True,), cast=cast), Random())
        for turn in range(len(whole.turns)):
            other = goes(middle(whole, turn)._replace(sample_seed=900 + index), Random())
            differing += other.children != whole.children[len(whole.children) - len(other.children) :]
            for later in range(len(other.turns) + 1):
                rest = goes(middle(other, later), Echo(other.turns[later:], game))
                assert rest.returns == other.returns
                assert [t.observation for t in rest.turns] == [t.observation for t in other.turns[later:]]
                children = other.children[len(other.children) - len(rest.children) :]
                assert [c.returns for c in rest.children] == [c.returns for c in children]
    assert differing > 5
