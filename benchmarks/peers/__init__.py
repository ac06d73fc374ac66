"""Other trackers, each driven by a script of its own in the peers' interpreter: see benchmarks.compare."""
