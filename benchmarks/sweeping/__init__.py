"""What `bench_sweep` is made of: the trial that all tools run, the tools, and searches over recorded curves."""
