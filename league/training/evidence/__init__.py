"""What is computed of an iteration's trajectories before they are credited: values, counterfactuals, changed rewards.

May import checkpoints, monitors and the interfaces of its wing, but not the learners beside it.
"""
