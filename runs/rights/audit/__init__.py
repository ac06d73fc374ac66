"""The audit: who did what, from where, with which result; rows in a chain of hashes. See docs/audit.md."""
