"""Sessions beside the ranks of a run: commands, terminals, forwarded ports."""
