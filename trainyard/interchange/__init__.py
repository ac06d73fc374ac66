"""Searches over hyperparameters from other tools, and to them: Optuna's storages and W&B's sweeps."""
