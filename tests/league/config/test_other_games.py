"""Other games in a preset's place, and what does not go together with self-play that settles."""

import pytest

from games.common.errors import UsageError
from league.config.load import load
from league.config.other_games import with_games

GOOFSPIEL = "goofspiel(imp_info=True,num_cards=4,points_order=descending)"


def test_one_game_takes_the_place_of_another_with_as_many_matches():
    """Kuhn poker lasts 3 turns, Leduc poker 8: less than four times as many turns an iteration."""
    config = load("settle", games=["leduc_poker"])
    assert list(config.games) == ["leduc_poker"]
    assert config.games["leduc_poker"].matches == load("settle").games["kuhn_poker"].matches == 512
    assert config.objective == load("settle").objective


def test_a_family_takes_a_place_for_each_of_its_games():
    games = load("settle", games=["hex(board_size={2,3})", "kuhn_poker"]).games
    assert list(games) == ["hex(board_size=2)", "hex(board_size=3)", "kuhn_poker"]


def test_long_matches_are_fewer():
    """Connect four lasts 42 turns: 4 * 3 * 1024 / 42 = 293 matches, and 256 is the nearest power of two."""
    assert load("settle-returns", games=["connect_four"]).games["connect_four"].matches == 256


def test_several_games_share_the_matches():
    games = load("settle-returns", games=["kuhn_poker(players=3)", GOOFSPIEL]).games
    assert {name: game.matches for name, game in games.items()} == {"kuhn_poker(players=3)": 512, GOOFSPIEL: 512}


def test_a_game_explores_as_the_presets_game_that_is_most_like_it():
    """Of pocket's, small Hanabi is most like tiny Hanabi, Leduc poker most like tic-tac-toe; Kuhn poker is one."""
    pocket = load("pocket-returns").games
    games = load("pocket-returns", games=["small_hanabi", "leduc_poker", "kuhn_poker"]).games
    hanabi = next(game for name, game in games.items() if name.startswith("hanabi("))
    assert (hanabi.entropy, hanabi.entropy_end) == (0.6, 0.02)
    assert games["leduc_poker"].entropy == pocket["tic_tac_toe"].entropy
    assert games["kuhn_poker"] == pocket["kuhn_poker"]


def test_settle_sampled_is_settle_but_for_how_replies_are_valued_and_tried():
    sampled, settle = load("settle-sampled"), load("settle")
    assert (sampled.objective, sampled.optimizer, sampled.model) == (settle.objective, settle.optimizer, settle.model)
    assert sampled.policies == settle.policies
    assert (sampled.values.estimator, settle.values.estimator) == ("empirical", "exact")
    assert sampled.matchmaking == settle.matchmaking.model_copy(update={"explore": 0.5})
    assert settle.matchmaking.explore == 0.0


@pytest.mark.parametrize("how", [{"games": ["kuhn_poker"]}, {"overrides": ["games={kuhn_poker={matches=32}}"]}])
def test_a_game_that_is_replaced_takes_its_teacher_with_it(how):
    """The preset smol is taught tic-tac-toe by minimax, and nothing else by anybody."""
    smol, other = load("smol"), load("smol", **how)
    assert (smol.teacher.players, smol.objective.distill) == ({"forewarned(tic_tac_toe)": "minimax"}, 0.5)
    assert (other.teacher.players, other.objective.distill) == ({}, 0.0)
    assert other.objective == smol.objective.model_copy(update={"distill": 0.0})


def test_a_teacher_stays_with_its_game_and_one_of_all_games_teaches_others(tmp_path):
    kept = load("smol", games=["leduc_poker", "forewarned(tic_tac_toe)"])
    assert (kept.teacher, kept.objective) == (load("smol").teacher, load("smol").objective)
    file = tmp_path / "run.toml"
    own = "games.kuhn_poker = {}\nobjective.distill = 0.25\nteacher.players = { 'kuhn_poker/first' = 'random' }\n"
    file.write_text(own + "teacher.player = 'equilibrium'\n")
    taught = load(str(file), games=["leduc_poker"])
    assert (taught.teacher.player, taught.teacher.players, taught.objective.distill) == ("equilibrium", {}, 0.25)
    assert load(str(file), games=["kuhn_poker"]).teacher.players == {"kuhn_poker/first": "random"}


def test_teaching_that_is_asked_for_stays_whatever_is_set_first():
    changes = ["objective.distill=0.25", "games={kuhn_poker={matches=32}}", "teacher.player=equilibrium"]
    for order in (changes, changes[::-1], [changes[1], changes[0], changes[2]]):
        run = load("smol", order)
        assert (run.objective.distill, run.teacher.player, run.teacher.players) == (0.25, "equilibrium", {}), order
    with pytest.raises(UsageError, match="teacher"):  # not silently untaught
        load("smol", changes[:2])


def test_a_teacher_of_a_game_that_was_never_there_is_refused():
    with pytest.raises(UsageError, match="There is no role or game named 'leduc_poker'"):
        load("smol", ["teacher.players={leduc_poker='random'}"], games=["kuhn_poker"])


def test_overrides_are_of_the_new_games():
    config = load("settle", ["games.leduc_poker.matches=64"], games=["leduc_poker"])
    assert config.games["leduc_poker"].matches == 64


def test_wrong_games_are_refused_by_a_sentence():
    for games, message in [
        (["leduk_poker"], "Did you mean leduc_poker"),
        (["leduc_poker", "leduc_poker"], "--game leduc_poker is given twice"),
    ]:
        with pytest.raises(UsageError, match=message):
            load("settle", games=games)
    with pytest.raises(UsageError, match=r"team is made for lookup_chain.* Choose another preset"):
        load("team", games=["leduc_poker"])


def test_a_games_table_that_says_nothing_has_the_defaults():
    data = with_games({"games": {"kuhn_poker": {}}}, ["leduc_poker"], "mine.toml")
    assert data == {"games": {"leduc_poker": {"matches": 512}}}


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["evaluation.gate=0.9"], "evaluation.gate compares the weights in training .* policies.main.average = 0.95"),
        (["games={lookup_alone={}}"], "lookup_alone has one seat .* policies.main.average"),
        (["objective.schedule=mmd"], "objective.schedule = 'mmd' .* entropy_end states where one ends"),
        (["objective.magnet_rule=rewards", "roles.reply=free", "roles.on_illegal=forfeit"], "answers in free text"),
        (
            ["objective.magnet_rule=rewards", "async_learners.processes=each"],
            "a learner process has only its own policies",
        ),
    ],
)
def test_what_does_not_go_together_says_so(overrides, message):
    with pytest.raises(UsageError, match=message):
        load("settle-returns", overrides)


def test_a_games_own_end_does_not_fit_mirror_descents_schedule():
    with pytest.raises(UsageError, match=r"games\.kuhn_poker\.entropy_end = 0\.04 states where a weight ends"):
        load("pocket-returns", ["objective.schedule=mmd"])
