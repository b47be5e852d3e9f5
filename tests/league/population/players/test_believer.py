"""The player that believes: in matches it earns what the exact best response does, and it is named like any other."""

import json
from random import Random

import pytest

from arena.records import ReplyRequest
from games.common.errors import UsageError
from games.registry import make_game
from league.cli import main
from league.population.evaluation.head_to_head import compare
from league.population.players.believer import Believer
from league.population.players.engines import Engines
from league.population.players.player import resolve
from league.population.storage.run_dir import load_plugins_of
from league.theory.exact.exploitability import PolicyTable, best_response_values, head_to_head, mixture, uniform_table
from roles.cards import load_roles
from roles.replies import format_reply

KUHN = "kuhn_poker"


def player(text, game=KUHN):
    return resolve(text, make_game(game).spec, Engines())


def test_its_table_earns_what_a_best_response_to_the_mixture_does():
    types = [player(name).tabulate().table for name in ("random", "always:bet", "always:pass")]
    ours = player("bayes:random,always:bet,always:pass").tabulate()
    assert ours.exact
    best = best_response_values(mixture(types, [1.0, 1.0, 1.0]))
    for seat in (0, 1):
        seated = [[ours.table, kind] if seat == 0 else [kind, ours.table] for kind in types]
        earned = sum(head_to_head(tables)[seat] for tables in seated) / 3
        assert earned == pytest.approx(best[seat], abs=1e-9)


def test_who_is_named_twice_is_twice_as_likely():
    types = [player(name).tabulate().table for name in ("random", "always:bet")]
    table = player("bayes:random,random,random,always:bet").tabulate().table
    best = best_response_values(mixture(types, [0.75, 0.25]))[0]
    assert 0.75 * head_to_head([table, types[0]])[0] + 0.25 * head_to_head([table, types[1]])[0] == pytest.approx(best)


def test_in_matches_it_wins_what_the_table_says():
    """Against uniform play a best response earns (1/2 + 5/12) / 2 a match over both seats."""
    result = compare((player("bayes:random"), player("random")), 2000, seed=0)
    assert result.returns[0].low < 11 / 24 < result.returns[0].high
    assert result.forfeits == 0


def test_it_is_a_partner_too():
    """Beside a partner that draws by chance, the best convention is worth the best response to uniform play."""
    game = "tiny_hanabi"
    ours, uniform = player("bayes:random", game).tabulate().table, uniform_table(game)
    assert head_to_head([ours, uniform])[0] == pytest.approx(best_response_values(uniform)[0], abs=1e-9)
    assert head_to_head([uniform, ours])[0] == pytest.approx(best_response_values(uniform)[1], abs=1e-9)


def test_a_command_plays_it(capsys):
    words = ["match", "bayes:always:bet,always:pass", "always:pass", "--game", KUHN, "--matches", "40", "--json"]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["illegal_rate"] == 0.0
    assert found["return_a"] > 0.0


@pytest.mark.parametrize(
    ("name", "game", "part"),
    [
        ("bayes:", KUHN, "bayes takes the players that it may meet"),
        ("bayes:random,", KUHN, "bayes takes the players that it may meet"),
        ("bayes:rando", KUHN, "no player named 'rando'"),
        ("bayes:random", "kuhn_poker(players=3)", "games of two seats"),
        ("bayes:random", "tic_tac_toe", "enumerated as boards"),
        ("bayes:random", "connect_four", "too"),
        ("bayes:random", "signalling", "free text"),
    ],
)
def test_what_it_cannot_play_is_told(capsys, name, game, part):
    assert main(["match", name, "random", "--game", game, "--matches", "2"]) == 2
    told = capsys.readouterr().err
    assert part in told
    assert "Traceback" not in told


def test_the_plugins_of_runs_that_it_names_are_loaded(tmp_path):
    """The run's configuration names a module, which its game may come from; a module that is missing is told."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.toml").write_text(f'plugins = ["there_is_no_{name}"]\n')
    for name in ("one", "two"):
        with pytest.raises(UsageError, match=f"there_is_no_{name}"):
            load_plugins_of([f"bayes:random,{tmp_path / name}"])


class Backwards:
    """A position of Kuhn poker whose actions are listed from the last to the first."""

    def __init__(self, game):
        self._game = game

    def __getattr__(self, name):
        return getattr(self._game, name)

    def legal_ids(self):
        return self._game.legal_ids()[::-1]

    def legal_actions(self):
        return self._game.legal_actions()[::-1]


def test_its_choices_are_in_the_order_in_which_actions_are_listed():
    """Against who always bets, queen and king call and the jack folds, however the two are listed."""
    believer = Believer(lambda: [always_bets()])
    role = load_roles(make_game(KUHN).spec)[1]
    chosen = {}
    for seed in range(20):
        game = make_game(KUHN)
        game.reset(seed)
        game.apply("bet")
        for position in (game, Backwards(game)):
            request = ReplyRequest("a", role, position, game.observe(1), position.legal_actions(), (), Random(0))
            [row] = believer.distributions([request])
            chosen.setdefault(game.information_state(1), set()).add(position.legal_actions()[row.index(1.0)])
            assert believer.sample([request])[0].text == format_reply(role, position.legal_actions()[row.index(1.0)])
    assert chosen == {"0b": {"pass"}, "1b": {"bet"}, "2b": {"bet"}}


def always_bets():
    return PolicyTable(KUHN, dict.fromkeys(uniform_table(KUHN).probabilities, (0.0, 1.0)))
