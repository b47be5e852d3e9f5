"""Where a policy comes from: rules that make a generation of runs from the last, one a file, and the breeding itself.

May import training and the wings below it, but no other room of the lab.
"""

from collections.abc import Callable

from league.lab.breeding import cross, distil, generations, go_back, go_on, merge, mutate
from league.lab.breeding.succession import Descent, Succession

RULES: dict[str, Callable[[Succession], Descent]] = {
    "go_on": go_on.descend,
    "go_back": go_back.descend,
    "distil": distil.descend,
    "mutate": mutate.descend,
    "merge": merge.descend,
    "cross": cross.descend,
    "generations": generations.descend,
}
