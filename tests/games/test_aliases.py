"""Short names: taken wherever a game is named, shown wherever one is shown, and never kept in a file."""

import json

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from games.registry import make_game
from league.cli import main
from league.cli.training.train import learning_summary
from league.config.load import load
from league.training.board.metrics_log import TENSORBOARD_FOLDER, MetricsLog
from league.training.board.questions import pinned_metrics

IPD = "repeated_game(stage_game=matrix_pd(),num_repetitions=8)"


def test_a_game_has_one_own_name_and_is_found_by_either():
    assert make_game("ipd").spec == make_game(IPD).spec
    assert make_game("ipd").spec.name == IPD
    assert make_game("ipd").spec.alias == "ipd"
    assert make_game("kuhn_poker").spec.alias == "kuhn_poker"


def test_commands_and_configurations_take_it(capsys, tmp_path):
    assert main(["match", "always:defect", "always:cooperate", "--game", "ipd", "--matches", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["game"] == IPD
    assert main(["regret", "always:defect", "random", "--game", "ipd", "--matches", "4"]) == 0
    assert "regret against random in ipd" in capsys.readouterr().out
    assert main(["games"]) == 0
    out = capsys.readouterr().out
    assert f"ipd: {IPD}" in out
    file = tmp_path / "short.toml"
    file.write_text('games.ipd.matches = 4\n[roles.policy]\n"ipd/row" = "a"\n"ipd/column" = "b"\n')
    config = load(str(file))
    assert list(config.games) == [IPD]
    assert config.roles.policy == {f"{IPD}/row": "a", f"{IPD}/column": "b"}


def test_tensorboard_shows_it_and_the_log_keeps_the_full_name(tmp_path):
    with MetricsLog(tmp_path) as log:
        log.write(0, {f"{IPD}/return/row": 30.0, f"{IPD}/share/cooperate": 0.5})
        log.write(1, {f"{IPD}/return/row": 40.0, f"{IPD}/share/cooperate": 0.9})
    curves = EventAccumulator(str(tmp_path / TENSORBOARD_FOLDER))
    curves.Reload()
    assert set(curves.Tags()["scalars"]) == {"ipd/return/row", "ipd/share/cooperate"}
    assert f"{IPD}/return/row" in (tmp_path / "metrics.jsonl").read_text()
    assert list(learning_summary(tmp_path, make_game("ipd").spec)) == [
        "mean return in training as row 30.000 → 40.000",
        "share of the actions: cooperate 0.500 → 0.900",
    ]


def test_a_score_is_pinned_only_where_winning_is_what_counts():
    scores = {f"{game}/score_against_random": 0.5 for game in ("kuhn_poker", "tic_tac_toe")}
    later = dict.fromkeys(scores, 0.6)
    assert pinned_metrics([scores, later]) == ["tic_tac_toe/score_against_random"]
