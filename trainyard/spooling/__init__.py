"""The files in which a process keeps its records until the server has them."""
