"""Data of people and projects, its places and its ages: exports, erasure, residency, retention and quotas. See
docs/privacy.md."""
