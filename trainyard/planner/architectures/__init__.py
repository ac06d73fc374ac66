"""What each built-in model computes, moves and keeps, layer by layer."""
