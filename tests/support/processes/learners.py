"""Options of runs with learner processes, and the part of such a run to compare with a run of one process."""

from league.config.load import load
from support.processes.runs import contents

EACH = ["--set", "async_learners.processes=each"]


AHEAD = [
    *("--set", "async_learners.max_staleness=2", "--set", "objective.truncate=2.0", "--set", "optimizer.max_gap=5.0"),
    *("--set", "matchmaking={self_play=1.0, fictitious=0.0}"),
]


def trained_here(run):
    """Return a run's contents without the files and the setting of learner processes."""
    files = contents(run)
    settings = load(str(run / "config.toml")).model_copy(update={"async_learners": None})
    return {name: content for name, content in files.items() if not name.startswith(("learners/", "config."))} | {
        "settings": settings
    }
