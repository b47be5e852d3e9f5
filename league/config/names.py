"""Types of fields that hold the name of a family's entry: a ``str`` that is checked when it is set.

The families belong to wings above the configuration, or are changed by plugins, so no list of their names is kept here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from games.common.registry import name_of

if TYPE_CHECKING:  # a type checker cannot follow types that are made at run time
    CreditRuleName = str
    SelectionRuleName = str
    EstimatorName = str
    EngineName = str
    TrainerName = str
    LeagueRoleName = str
    MetaSolverName = str
    JointSolverName = str
    StartRuleName = str
    BranchingRuleName = str
    BreedingRuleName = str
else:
    CreditRuleName = name_of("credit")
    SelectionRuleName = name_of("selection")
    EstimatorName = name_of("estimators")
    EngineName = name_of("engines")
    TrainerName = name_of("trainers")
    LeagueRoleName = name_of("league_roles", "exploiters")
    MetaSolverName = name_of("meta_solvers", "meta_solvers")
    JointSolverName = name_of("joint_solvers", "joint_solvers")
    StartRuleName = name_of("starts")
    BranchingRuleName = name_of("branching")
    BreedingRuleName = name_of("breeding")
