"""Costs of each built-in model, layer by layer: what it computes, moves and keeps."""
