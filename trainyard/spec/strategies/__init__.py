"""The ways to train in parallel as a spec names them: degrees, what goes together, and what cannot be."""
