"""The nodes of a plan: where ranks are placed, and how fast nodes compute and exchange."""
