"""Interactive sessions beside ranks: who may begin one, and what is recorded of it."""
