"""Terms of the loss: known by name to their own files alone, light to import, and the same after JSON."""

import ast
import json
import pickle
import subprocess
import sys

from support.source import FILES, ROOT

from learners.batching import ChoiceRow, FreeRow, ReplyPlace, TrainBatch
from learners.losses import AUXILIARY, KEYS, LOSSES
from learners.losses.contrast import Contrast, ContrastRows
from learners.losses.distillation import TaughtRows, TaughtTurns
from learners.losses.dpo import Pair, ReplyPairs
from learners.losses.given_rows import GivenRows
from learners.losses.whole_trajectories import MismatchedReply, ScoredTrajectory, TrajectoryPair, WholeTrajectories

PLACE = ReplyPlace(3, 1, free=False)
WHOLE = WholeTrajectories(
    (ScoredTrajectory("g/r", (PLACE, None), True, 0.5, (0,)),),
    (TrajectoryPair(0, 0, 0.5),),
    (MismatchedReply((1, 2), (3,), 1.0),),
)
GIVEN = GivenRows(
    (ChoiceRow("g", "g", (1,), ("a", "b"), 1.0, [1.0, 0.0], [0.5, 0.0], [0.0, 0.0], [0.0, 0.0]),),
    (FreeRow("g", "g", (1,), (2, 3), 1.0, 1.0, 0.5, 0.0, 0.0),),
)
ROWS = {
    "dpo": ReplyPairs((Pair(PLACE, ReplyPlace(3, 0, free=False), 2.0, 0.5),)),
    "dmpo": WHOLE,
    "kto": WHOLE,
    "imitation": GIVEN,
    "listening": GIVEN,
    "prediction": GIVEN,
    "contrast": ContrastRows(0.1, (Contrast("g", "r", 0.5, ((1, 2), (3,)), (0, 1, 0), (0, 1, 1)),)),
    "distill": TaughtRows(0.5, "reverse", (TaughtTurns(True, 0, "g/r", (-0.5, -1.5), 1.0, 0.25),)),
}


def test_the_rows_of_every_term_are_sent_as_they_are_and_written_as_json():
    assert {name for name, term in {**LOSSES, **AUXILIARY}.items() if term.rows is not None} == set(ROWS)
    batch = TrainBatch("main", (), (), 0, (), ROWS)
    assert pickle.loads(pickle.dumps(batch)) == batch  # noqa: S301  # as followers get it
    assert json.loads(json.dumps(batch._asdict()))["terms"].keys() == ROWS.keys()


def test_no_surrogate_is_compared_by_name():
    """But for the lists of our losses and of what [objective] may be set to in examples, names are data."""
    compared = [
        (str(path.relative_to(ROOT)), part.value)
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Compare)
        for part in ast.walk(node)
        if isinstance(part, ast.Constant) and part.value in LOSSES
    ]
    assert [found for found in compared if found[0].startswith(("learners/losses", "learners/update", "league/"))] == []


def test_a_configuration_is_read_without_torch():
    code = "import sys; from league.config.load import load; load('pocket'); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_our_surrogates_have_keys_of_the_objective_that_no_other_table_has():
    settings = {key for entry in LOSSES.values() for key in entry.settings.model_fields}
    assert settings.isdisjoint(KEYS)
    assert len(set(KEYS)) == len(KEYS)
