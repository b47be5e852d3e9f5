"""Runs that were trained without a break, one for each configuration that a test asks for."""

from support.processes.runs import TINY, league_train


class UnbrokenRun:
    """A configuration's file, and the run that was trained by it without a break."""

    def __init__(self, settings, folder):
        self.config = folder / "config.toml"
        self.config.write_text(TINY + settings)
        self.run = folder / "run"
        ended = league_train(self.config, run_dir=self.run)
        assert ended.status == 0, ended.output
        self.seconds = ended.seconds


def each_once(variants, tmp_path_factory):
    """Return a function from a variant's name to its run, which is trained when it is first asked for."""
    made = {}

    def unbroken(variant):
        if variant not in made:
            made[variant] = UnbrokenRun(variants[variant], tmp_path_factory.mktemp("unbroken"))
        return made[variant]

    return unbroken
