"""The largest numbers that a file, an option or a setting may give, and when garbage is collected. Imports nothing."""

LARGEST_COUNT = 10**9  # of anything that is counted: more would not be finished in a lifetime, or fit into memory
MOST_THREADS = 1024  # torch dies of a thread that the system refuses: machines have fewer cores, and allow more
LEAST_TEMPERATURE = 1e-6  # logits divided by less may be infinite; below it, the likeliest token is meant
LARGEST_SEED = 2**63 - 1  # what TOML and JSON readers in every language take as a whole number
GC_THRESHOLDS = (500_000, 50, 100)  # of ``gc.set_threshold``: records are made by the thousand, and few cycles
