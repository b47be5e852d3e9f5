"""The board: what TensorBoard, loggers and files are given of a run, and the questions that it answers.

May import learning and what stands below it.
"""
