"""The board: what a run writes to TensorBoard, loggers and files, and the questions that it answers.

May import learning and everything below it.
"""
