"""Proposing the next trial from those that there were: functions of plain values. The same trials and the same seed
give the same proposal, in whatever process."""
