"""Looking at what live runs log: ranks that slow the others down, and metrics that break a rule."""
