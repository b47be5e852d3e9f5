"""Settings of short runs on the pretrained model."""

SMALL = [
    "games={kuhn_poker={matches=32}}",
    "iterations=2",
    "snapshot_every=2",
    "threads=1",
    "cold_start.matches=20",
    "evaluation.matches=2",
    "optimizer.inner_steps=2",
    "distil_every=0",
]


def settings(values):
    """Return the words of a command line that sets ``KEY=VALUE`` for each."""
    return [word for value in values for word in ("--set", value)]
