"""Commands that work beside the ranks of a run."""
