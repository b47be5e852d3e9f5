"""Engines: each answers a batch of requests. One engine a file."""
