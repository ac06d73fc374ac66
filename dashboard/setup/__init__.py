"""Makes a fresh machine ready: `.venv`, `node_modules`, and for the tests a browser and PostgreSQL.

Runs before anything is installed, so it uses the standard library alone and parses on any Python 3
that a system may have as `python3`: `python3 -m dashboard.setup [--for KIND] [-- COMMAND ...]`.
"""
