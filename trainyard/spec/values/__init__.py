"""The values that fields of a spec hold."""
