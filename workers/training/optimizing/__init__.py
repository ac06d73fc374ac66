"""Changes of weights: optimizers, learning rates, number formats, and when to stop early."""
