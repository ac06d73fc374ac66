"""How weights change: optimizers, learning rates, number formats, and when to stop early."""
