"""``python -m league.cli`` is the ``league`` command."""

import sys

from league.cli import main

if __name__ == "__main__":
    sys.exit(main())
