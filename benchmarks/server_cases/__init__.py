"""Benchmarks of the server: ingest, charts, pages, and logging."""
