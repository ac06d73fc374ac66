"""The recipe ``communication-benchmark``: how fast ranks exchange tensors, and compute."""
