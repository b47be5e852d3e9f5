"""Helpers of several test files, in rooms by subject, and the source of the checkout."""
