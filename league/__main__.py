"""``python -m league`` is the ``league`` command."""

import sys
from pathlib import Path

# Python puts the current folder before all others, where a stranger's file of a library's name would be that library.
# A plugin that --plugin names is found there anyway.
if __name__ == "__main__" and sys.path[0] == str(Path.cwd()) != str(Path(__file__).resolve().parents[1]):
    del sys.path[0]

import league

league.check_for_command()  # now that the current folder is out of the way

from league.cli import command  # noqa: E402

if __name__ == "__main__":
    sys.exit(command())
