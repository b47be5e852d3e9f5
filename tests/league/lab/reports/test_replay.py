"""A replay shows what was on the board and what each seat held, as the rules say, and never guesses."""

import re

import pytest

from arena.records import EndReason, Episode, MatchRequest, Turn
from arena.replays import save_episodes
from arena.samplers.scripted import Random, Script
from arena.scheduler import play
from games.registry import make_game
from games.talk.conversation import addresses_all
from league.cli import main
from league.config import RolesConfig
from league.config.load import seat_roles
from league.lab.reports.match_list import find_matches, replay_page
from league.lab.reports.replay import Private, positions, reasoning, to_replay
from league.population.storage.sampled_matches import SampledMatch
from roles.cards import load_roles

GAMES = (
    "kuhn_poker",
    "leduc_poker",
    "tic_tac_toe",
    "tiny_hanabi",
    "liars_dice",
    "sheriff",
    "matrix_pd",
    "hex(board_size=4)",
)


def played(game, seed=3):
    """Return a match at random."""
    spec, engine = make_game(game).spec, Random()
    roles, players = seat_roles(RolesConfig(), spec), ("a", "b", "c", "d", "e", "f", "g")[: spec.seats]
    request = MatchRequest(seed, game, seed, seed, players, tuple(player == "a" for player in players))
    return play([request], roles_of=lambda _: roles, engine_of=lambda _: engine, make_game=make_game, in_flight=1)[0]


def kept(episode, advantages=None):
    return SampledMatch(episode, 5, ("best",), (advantages or (None,) * len(episode.turns),))


@pytest.mark.parametrize("game", GAMES)
def test_every_position_is_set_up_again(game):
    episode = played(game)
    views = positions(episode)
    assert len(views) == len(episode.turns) + 1
    assert None not in views
    assert [view.shown[turn.seat] for view, turn in zip(views[:-1], episode.turns, strict=True)] == [
        turn.observation for turn in episode.turns
    ]


def test_what_all_see_and_what_one_sees_are_apart():
    """Kuhn poker: the cards are hidden, the moves are not. The deal of seed 3 gives J and K."""
    replay = to_replay(kept(played("kuhn_poker", seed=3), None))
    first, *_ = replay.steps
    assert first.board.public == "Moves: none"
    assert first.board.private == (Private(0, "first", "Your card: J"), Private(1, "second", "Your card: K"))
    assert replay.last_board.complete
    assert sum(replay.returns) == 0


@pytest.mark.parametrize("seed", range(6))
def test_cards_that_are_equal_by_accident_are_still_private(seed):
    """In tiny Hanabi both seats hold d1 in one deal of four."""
    replay = to_replay(kept(played("tiny_hanabi", seed=seed), None))
    for step in replay.steps:
        assert step.board.public.startswith("Moves: ")
        assert ["Your card" in part.text for part in step.board.private] == [True, True]


def test_equal_cards_are_among_those_deals():
    cards = {
        tuple(part.text for part in to_replay(kept(played("tiny_hanabi", seed=seed), None)).steps[0].board.private)
        for seed in range(6)
    }
    assert any(first == second for first, second in cards)


@pytest.mark.parametrize(
    ("game", "public"),
    [
        ("kuhn_poker", "Moves: "),
        ("leduc_poker", "Round 1: "),
        ("liars_dice", "Bids: "),
        ("hanabi(players=2)", "Fireworks: "),
        ("renamed(tiny_hanabi)", ""),
        ("matrix_pd", ""),
        ("goofspiel(num_cards=3)", ""),
        ("hidden_roles(days=1,form=1)", "Day 1"),
        ("repeated_kuhn_poker(hands=2)", "Moves: "),
        ("public_goods(rounds=2,talk=0)", "4 players"),
    ],
)
def test_what_speaks_to_one_seat_is_never_shown_as_what_all_see(game, public):
    """Lines that call their reader "you" mean another seat in each observation."""
    for seed in range(4):
        for step in to_replay(kept(played(game, seed=seed), None)).steps:
            assert public in step.board.public
            assert not re.search(r"\b[Yy]our?\b", re.sub(r'"[^"]*"', "", step.board.public))
            if not public:
                assert step.board.public == ""


def test_what_is_said_to_all_is_public_and_what_i_said_is_mine():
    assert addresses_all('second: "I trust you."')
    assert not addresses_all('you: "I trust second."')
    assert not addresses_all("Your card: d1")


def test_a_game_without_secrets_has_one_board():
    replay = to_replay(kept(played("tic_tac_toe"), None))
    assert replay.steps[0].board == ("1 2 3\n4 5 6\n7 8 9", (), True)
    assert replay.steps[1].board.public.count("X") == 1


def test_where_the_rules_no_longer_say_the_same_only_the_record_is_shown():
    episode = played("kuhn_poker", seed=3)
    changed = episode._replace(turns=(episode.turns[0], episode.turns[1]._replace(observation="Your card: ace")))
    replay = to_replay(kept(changed, (None, None)))
    assert [step.board.complete for step in replay.steps] == [True, False]
    assert replay.steps[1].board.private == (Private(1, "second", "Your card: ace"),)
    assert replay.last_board == ("", (), False)


@pytest.mark.parametrize("game", ["no_such_game", "kuhn_poker"])
def test_a_match_of_unknown_rules_is_shown_as_recorded(game):
    turn = Turn(0, "first", "a", "a board", ("x",), "x", "x", 1.0, None)
    request = MatchRequest(0, game, 0, 0, ("a", "b"), (True, False))
    replay = to_replay(kept(Episode(request, (turn,), (1.0, -1.0), EndReason.FINISHED), (None,)))
    assert replay.steps[0].board.private == (Private(0, "first", "a board"),)
    assert replay.roles == ("first", "seat 1")


def test_an_illegal_reply_leaves_the_position_as_it_was():
    episode = played("kuhn_poker", seed=3)
    wrong = episode.turns[0]._replace(reply="I fold!", action=None, reward=0.0)
    replay = to_replay(kept(episode._replace(turns=(wrong, *episode.turns))))
    assert replay.steps[0].outcome == "illegal reply"
    assert replay.steps[0].board == replay.steps[1].board
    assert replay.last_board.complete


def test_advantages_are_those_that_were_kept():
    episode = played("kuhn_poker", seed=3)
    numbers = tuple(0.5 if turn.seat == 0 else None for turn in episode.turns)
    assert tuple(step.advantage for step in to_replay(kept(episode, numbers)).steps) == numbers


def test_submatches_are_replayed_below_their_match():
    turn = Turn(0, "planner", "a", "a task", ("x",), "x", "x", 1.0, None)
    request = MatchRequest(0, "no_such_game", 0, 0, ("a",), (True,))
    child = Episode(request._replace(parent=0, task="add"), (turn, turn), (0.5,), EndReason.FINISHED, outcome="7")
    parent = Episode(request, (turn,), (1.0,), EndReason.FINISHED, children=(child,))
    replay = to_replay(SampledMatch(parent, 1, (), ((0.1,), (0.2, 0.3))))
    [below] = replay.children
    assert (below.task, below.outcome) == ("add", "7")
    assert [step.advantage for step in below.steps] == [0.2, 0.3]


def test_curves_of_beliefs_are_those_of_the_asked_seats_in_the_colours_of_their_seats(tmp_path, capsys):
    """With 20 of 100 clues certain a Bayesian gives the wolf 0.4 after a right clue, 0.2 after a wrong one."""
    spec = make_game("hidden_roles(days=1,form=1)").spec
    roles, engine = load_roles(spec, probes=True), Script("bayes")
    request = MatchRequest(0, spec.name, 2, 3, ("bayes",) * 5, (False,) * 5)
    [episode] = play([request], roles_of=lambda _: roles, engine_of=lambda _: engine, make_game=make_game)
    [curves] = to_replay(kept(episode)).beliefs
    assert curves.probe == "wolf"
    assert [(line.label, line.colour) for line in curves.lines] == [(f"villager_{seat}", seat) for seat in range(1, 5)]
    assert {round(line.ys[0], 9) for line in curves.lines} <= {0.2, 0.4}
    assert all(list(line.xs) == list(range(11)) for line in curves.lines)  # five speeches and five votes
    save_episodes(tmp_path / "wolves.jsonl", [episode])
    assert main(["replay", str(tmp_path / "wolves.jsonl")]) == 0
    told = "  villager_2: " + " ".join(f"{value:.2f}" for value in curves.lines[1].ys)
    assert told in [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert curves.svg in replay_page(find_matches(str(tmp_path / "wolves.jsonl")))
    assert to_replay(kept(played("kuhn_poker"))).beliefs == ()


@pytest.mark.parametrize(
    ("reply", "action", "expected"),
    [
        ("bet", "bet", ""),
        ("[bet]", "bet", ""),
        ("I have the king. [bet]", "bet", "I have the king."),
        ("A bet would scare them, so [Bet]", "bet", "A bet would scare them, so"),
        ("<think>maybe pass</think>[bet]", "bet", "<think>maybe pass</think>"),
        ("nothing legal", None, ""),
        ("thoughts\n<answer>pass</answer>", "pass", "thoughts"),
    ],
)
def test_reasoning_is_what_precedes_the_answer(reply, action, expected):
    assert reasoning(reply, action) == expected
