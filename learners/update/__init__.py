"""One policy's update: the policy with its optimiser and critic, the passes of an update, and cold start by imitation.

May import all rooms of learners but ``rllib``.
"""
