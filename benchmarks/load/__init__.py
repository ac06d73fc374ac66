"""The load on a server: points, logs, runs and listeners, and the processes that make them."""
