"""A player is its weights, its card and its notes: another card, or no notes, is another player by name."""

from pathlib import Path

import pytest
from support.processes.runs import TrainingProcess

from arena.records import MatchRequest
from games.common.errors import UsageError
from games.registry import make_game
from league import match
from league.population.evaluation.head_to_head import compare
from league.population.players.engines import Engines
from league.population.players.player import resolve
from league.population.players.settings import PlayerSettings
from league.population.storage.identity import (
    KeptNotes,
    card_digest,
    card_digests,
    check_cards,
    suffix,
    with_notes,
    without_suffix,
)
from league.population.storage.population import Snapshot
from roles.cards import load_roles, with_overrides
from roles.slots import filling

KUHN = make_game("kuhn_poker").spec
ROLES = load_roles(KUHN)
NOTED = "repeated_kuhn_poker(hands=2)"
CARD = """
game = "repeated_kuhn_poker"
[[role]]
name = "first"
seat = 0
system = "Play."
prompt = "{notes}\\n{observation}"
slots.notes = {rule = "notes", choices = ["bluffs", "folds"]}
[[role]]
name = "second"
seat = 1
system = "Play."
prompt = "{observation}"
"""


def snapshot(cards=(), notes=""):
    return Snapshot("main-000010", "main", 10, None, "start", {}, Path("x"), (), "", dict(cards), notes)


CHANGES = [
    {"system": "Other words."},
    {"prompt": "See {observation}"},
    {"temperature": 0.5},
    {"demonstrations": 2},
    {"reply": "free", "conduct": {"on_illegal": "forfeit"}},
    {"prompt": "{notes}\n{observation}", "slots": (filling("notes", {"rule": "notes"}),)},
]


def changed(role, change):
    return type(role).model_validate({**dict(role), **change})


def test_a_card_is_named_by_all_that_it_asks_and_by_nothing_else():
    digests = [card_digest(changed(ROLES[0], change)) for change in [{}, *CHANGES]]
    rules = [{"rule": "notes", "choices": ["a", "b"]}, {"rule": "notes", "choices": ["a", "c"]}, {"rule": "plan"}]
    digests += [card_digest(changed(ROLES[0], CHANGES[-1] | {"slots": (filling("notes", one),)})) for one in rules]
    assert len({*digests}) == len(digests)
    assert card_digest(changed(ROLES[0], {"policy": "other", "fixed": True, "name": "x"})) == digests[0]


@pytest.mark.parametrize("seat", [0, 1])
def test_another_card_follows_the_name_and_its_own_does_not(seat):
    own = snapshot(card_digests({KUHN.name: ROLES}))
    other = tuple(with_overrides(role, temperature=0.5 if role.seat == seat else None) for role in ROLES)
    assert suffix(own, ROLES, ROLES, notes=True) == ""
    assert suffix(own, other, ROLES, notes=True) == ""  # as it was frozen, whatever its run's cards are now
    found = suffix(own, ROLES, other, notes=True)
    assert without_suffix(f"runs/a@main-000010{found}") == "runs/a@main-000010" != f"runs/a@main-000010{found}"
    assert suffix(snapshot(), ROLES, other, notes=True) == found  # a game that it never trained: its run's card
    assert suffix(snapshot(), other, other, notes=True) == ""
    assert found != suffix(own, ROLES, tuple(with_overrides(role, temperature=0.25) for role in ROLES), notes=True)


def test_notes_that_are_left_out_make_another_player_where_there_are_some():
    assert suffix(snapshot(), ROLES, ROLES, notes=False) == ""
    assert suffix(snapshot(notes="0" * 32), ROLES, ROLES, notes=True) == ""
    assert suffix(snapshot(notes="0" * 32), ROLES, ROLES, notes=False)


def test_a_run_whose_card_has_changed_is_not_resumed():
    own = snapshot(card_digests({KUHN.name: ROLES}))
    check_cards({KUHN.name: ROLES}, [own])
    check_cards({}, [own])  # the game is no longer trained
    check_cards({KUHN.name: ROLES}, [snapshot()])  # of an older version
    with pytest.raises(UsageError, match=r"card of kuhn_poker/second .* main-000010"):
        check_cards({KUHN.name: (ROLES[0], with_overrides(ROLES[1], temperature=2.0))}, [own])


def test_notes_are_found_by_the_names_that_players_have_in_the_run_that_wrote_them(tmp_path):
    run, other = tmp_path / "run", tmp_path / "other"
    texts = {
        '["g", 0, "notes", "main-000001"]': "own",
        f'["g", 0, "notes", "{other.resolve()}@main-000001"]': "theirs",
        '["g", 0, "notes", "random"]': "chance",
        '["g", 1, "notes", "random"]': "the other seat",
    }
    kept = KeptNotes(run, texts, (("g", 0, "notes"),))
    me = f"{run}@main-000002"

    def given(*players, game="g"):
        [request] = with_notes([MatchRequest(0, game, 1, 1, players, (False, False))], {me: kept})
        return request.given

    assert given(me, f"{run}@main-000001") == ((0, "notes", "own"),)
    assert given(me, f"{run / '..' / 'run'}@main-000001#0123abcd") == ((0, "notes", "own"),)
    assert given(me, f"{other}@main-000001") == ((0, "notes", "theirs"),)
    assert given(me, "random") == ((0, "notes", "chance"),)
    assert given("random", me) == given(me, "other") == given(me, "random", game="h") == ()


@pytest.fixture(scope="module")
def noted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("noted")
    (folder / "cards").mkdir()
    (folder / "cards" / "repeated_kuhn_poker.toml").write_text(CARD)
    (folder / "config.toml").write_text(
        f'iterations = 2\nsnapshot_every = 1\nroles.cards = "{folder / "cards"}"\nalarms.stop = []\n'
        'evaluation = { matches = 4, anchors = ["random"] }\n'
        f'games."{NOTED}".matches = 8\nmatchmaking = {{ self_play = 0.5, fictitious = 0.5, guests = ["random"] }}\n'
    )
    assert TrainingProcess(folder / "config.toml", run_dir=folder / "run").end().status == 0
    return folder / "run"


@pytest.mark.thorough
def test_a_match_between_runs_shows_a_snapshots_notes_and_without_them_nothing_else_differs(noted):
    me = f"{noted}@main-000002"
    played = match(me, "random", game=NOTED, matches=40).episodes
    shown = {episode.request.given for episode in played if episode.request.players[0] == me}
    [[(_, _, text)]] = shown
    assert all(
        turn.observation.split("\n")[0] == text
        for episode in played
        for turn in episode.turns
        if turn.player == me and turn.seat == 0 and not turn.tool
    )
    assert {episode.request.given for episode in played if episode.request.players[0] != me} == {()}
    with Engines(PlayerSettings(stores=False)) as engines:
        players = [resolve(name, make_game(NOTED).spec, engines) for name in (me, "random")]
        [[(name, _)]] = {*players[0].members}
        assert name != without_suffix(name) == me
        off = compare((players[0], players[1]), 40, 0).episodes
    assert all(not episode.request.given for episode in off)
    for on, without in zip(played, off, strict=True):
        if on.request.players[0] != me:  # nothing was shown there, so that nothing changes
            assert [turn.reply for turn in on.turns] == [turn.reply for turn in without.turns]
