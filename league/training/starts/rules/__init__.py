"""Rules by which starts are played, one a file: each gives every start of a game a weight from its figures.

May import config and what the pool has measured.

A rule is a pure function of the starts that have been played and a ``Moment``, and gives weights of 0 or more; all 0
is as good as all equal. To add one: write its file, name it in ``RULES`` and in ``StartRule``.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from league.training.starts.measured import StoredStart
from league.training.starts.rules.backward import backward
from league.training.starts.rules.hard import hard
from league.training.starts.rules.learnability import learnability
from league.training.starts.rules.moment import Moment
from league.training.starts.rules.plr import plr
from league.training.starts.rules.staged import staged
from league.training.starts.rules.uniform import uniform
from league.training.starts.rules.variance import variance

RULES: dict[str, Callable[[Sequence[StoredStart], Moment], NDArray[np.float64]]] = {
    "uniform": uniform,
    "learnability": learnability,
    "plr": plr,
    "staged": staged,
    "hard": hard,
    "backward": backward,
    "variance": variance,
}

__all__ = ["RULES", "Moment"]
