"""What belongs to whom, where it lies, for how long: exports, erasure, residency, retention and quotas. See
docs/privacy.md."""
