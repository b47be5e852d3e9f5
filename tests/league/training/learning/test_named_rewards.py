"""Several rewards in a run: the board shows each, and one alone trains as the rule that knows no other."""

import json
import tomllib

import pytest

from league.config.load import validate
from league.training.loop.session import train

FREE = """
threads = 1
iterations = 2
snapshot_every = 2
episodes_kept = 1
board.time = 0.0
games.kuhn_poker.matches = 16
roles = { reply = "free", on_illegal = "forfeit", max_reply_tokens = 6 }
matchmaking = { self_play = 1.0, fictitious = 0.0, group_size = 4 }
model = { hidden_size = 32, layers = 1, intermediate_size = 16, vocabulary = 300 }
cold_start = { steps = 60, matches = 32 }
evaluation = { matches = 0, exact = false }
"""
MASKED = FREE.replace("free", "choice").replace("forfeit", "mask").replace("steps = 60", "steps = 2")
JUDGED = MASKED.replace("kuhn_poker", '"judged_arithmetic(right=1)"')


def trained(folder, text, credit):
    """Return the metrics of a run by iteration, without times."""
    train(validate(tomllib.loads(text + credit)), folder)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    times = ("time/", "memory/", "mfu/", "seconds", "tokens_per_second")
    return [{name: value for name, value in line.items() if not name.startswith(times)} for line in lines]


@pytest.mark.thorough
def test_brevity_and_return_are_on_the_board_by_role_and_move_the_policy(tmp_path):
    grpo = trained(tmp_path / "grpo", FREE, 'credit.rule = "grpo"')
    alone = trained(tmp_path / "alone", FREE, 'credit = { rule = "gdpo", gdpo.normalise_batch = false }')
    paid = [name for name in alone[1] if "/reward/" in name]
    assert paid == ["kuhn_poker/reward/first/return", "kuhn_poker/reward/second/return"]
    assert [{name: line[name] for name in line if name not in paid} for line in alone] == grpo
    text = 'credit = { rule = "gdpo", gdpo.weights.brevity = 0.5, settings."kuhn_poker/second".weights.brevity = 0.0 }'
    shown = [f"kuhn_poker/reward/{role}/{name}" for role in ("first", "second") for name in ("brevity", "return")]
    both = trained(tmp_path / "both", FREE, text)
    assert [name for name in both[1] if "/reward/" in name] == shown
    assert -6.0 * 2 <= both[1]["kuhn_poker/reward/first/brevity"] < 0.0
    assert both[2]["main/loss"] != alone[2]["main/loss"]


def test_what_a_game_pays_by_name_is_kept_with_its_matches_and_shown(tmp_path):
    text = 'credit = { rule = "gdpo", gdpo.weights_end.right = 1.0, gdpo.over = 2 }'
    lines = trained(tmp_path / "run", JUDGED, text)
    assert [line["credit/gdpo/weight/right"] for line in lines[1:]] == [0.0, 0.5]
    for role in ("solver", "evaluator"):
        assert 0.0 <= lines[1][f"judged_arithmetic(right=1)/reward/{role}/right"] <= 1.0
    kept = "".join(path.read_text() for path in (tmp_path / "run" / "episodes").rglob("*.jsonl"))
    assert '"named": [["right", 1.0]]' in kept
