"""The sections of a spec."""
