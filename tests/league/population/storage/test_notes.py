"""Notes over matches: stored by content, shown to the same player at the same table, and resumed bit for bit."""

import json

import pytest

from arena.records import EndReason, Episode, MatchRequest, Turn
from games.common.errors import DamagedFile
from league.population.storage.notes import EMPTY, NoteStore, _stored

GAME = "repeated_kuhn_poker(hands=1)"


def match(players, note, seat=0, index=0):
    turn = Turn(seat, "first", players[seat], "", (), note, note, 0.0, None, tool="notes")
    trained = tuple(name == "main" for name in players)
    return Episode(MatchRequest(index, GAME, 1, 1, players, trained), (turn,), (0.0, 0.0), EndReason.FINISHED)


@pytest.fixture
def store(tmp_path):
    return NoteStore(tmp_path / "notes", [(GAME, 0, "notes")])


def shown(store, version, *players):
    [request] = store.given(version, [MatchRequest(5, GAME, 1, 1, players, (True, False))])
    return request.given


def test_notes_are_shown_to_the_same_player_at_the_same_table(store):
    version = store.after(EMPTY, [match(("main", "a"), "a bluffs"), match(("main", "b"), "b folds")])
    assert shown(store, version, "main", "a") == ((0, "notes", "a bluffs"),)
    assert shown(store, version, "main", "b") == ((0, "notes", "b folds"),)
    assert shown(store, version, "main", "c") == ()
    assert shown(store, version, "other", "a") == ()


def test_a_version_is_named_by_its_content_and_never_changes(store, tmp_path):
    first = store.after(EMPTY, [match(("main", "a"), "one")])
    second = store.after(first, [match(("main", "a"), "two")])
    assert first != second
    assert store.after(second, [match(("main", "a"), "one")]) == first
    assert shown(store, first, "main", "a") == ((0, "notes", "one"),)
    assert sorted(path.stem for path in (tmp_path / "notes").iterdir()) == sorted([first, second])


def test_a_snapshot_keeps_the_notes_of_its_freezing_and_writes_no_more(store):
    version = store.frozen(store.after(EMPTY, [match(("main", "a"), "old")]), "main", "main-000001")
    later = store.after(version, [match(("main", "a"), "new"), match(("main-000001", "a"), "mine")])
    assert shown(store, later, "main-000001", "a") == ((0, "notes", "old"),)
    assert shown(store, later, "main", "a") == ((0, "notes", "new"),)
    gone = store.without(later, "main")
    assert shown(store, gone, "main", "a") == ()
    assert shown(store, gone, "main-000001", "a") == ((0, "notes", "old"),)


def test_each_snapshot_has_its_own_notes_and_others_keep_theirs(store):
    first = store.frozen(store.after(EMPTY, [match(("main", "a"), "one")]), "main", "main-000001")
    version = store.frozen(store.after(first, [match(("main", "a"), "two")]), "main", "main-000002")
    assert store.frozen(version, "probe", "probe-000001") == version, "who has no notes changes none"
    assert [shown(store, version, player, "a") for player in ("main-000001", "main-000002", "main")] == [
        ((0, "notes", note),) for note in ("one", "two", "two")
    ]
    assert shown(store, store.without(version, "main-000001"), "main", "a") == ((0, "notes", "two"),)


def test_a_table_is_everybody_else_in_the_order_of_their_seats(tmp_path):
    store = NoteStore(tmp_path / "notes", [(GAME, 1, "notes"), (GAME, 2, "notes")])
    version = store.after(EMPTY, [match(("b", "main", "a"), "b before me", seat=1)])

    def of(*players):
        [request] = store.given(version, [MatchRequest(0, GAME, 1, 1, players, (False, True, False))])
        return request.given

    assert of("b", "main", "a") == ((1, "notes", "b before me"),)
    assert of("a", "main", "b") == of("b", "a", "main") == of("b", "main", "main") == ()


def test_a_store_that_is_off_shows_nothing_and_writes_nothing(tmp_path):
    off = NoteStore(tmp_path / "notes", ())
    asked = [MatchRequest(0, GAME, 1, 1, ("main", "a"), (True, False))]
    assert off.after(EMPTY, [match(("main", "a"), "one")]) == EMPTY
    assert off.given(EMPTY, asked) == asked
    assert not (tmp_path / "notes").exists()


def test_a_changed_version_is_refused(store, tmp_path):
    version = store.after(EMPTY, [match(("main", "a"), "one")])
    path = tmp_path / "notes" / f"{version}.json"
    path.write_text(json.dumps({"main": {}}))
    _stored.cache_clear()
    with pytest.raises(DamagedFile, match="has changed"):
        shown(store, version, "main", "a")
