"""The page that compares runs: charts, a list beside them, what differs, and how sure a difference is."""
