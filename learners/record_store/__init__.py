"""The durable queue of trajectories between play and learner processes.

May import the files at the root of learners.
"""
