"""Training runs, learners, workers, nodes and a server as processes or threads that a test can kill."""
