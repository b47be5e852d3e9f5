"""What is computed of an iteration's trajectories before they are credited: values, counterfactuals, changed rewards.

May import learners and league's config and storage, but not the learners of the loop beside it.
"""
