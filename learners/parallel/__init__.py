"""Updates over several processes: the process group of data-parallel updates, and FSDP2's sharding.

May import the files at the root of learners, not losses.
"""
