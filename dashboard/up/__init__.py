"""`python -m dashboard.up`: everything that Trainyard runs, under one parent on one machine."""
