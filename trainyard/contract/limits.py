"""Limits that both sides of a border hold to."""

from __future__ import annotations

MAX_OFFERED = 5  # checkpoints in one Go
OUTPUT_NAMED = 5  # files of each kind that an OutputState names
UPLOAD_PART_BYTES = 8 * 1024 * 1024  # of a file that is larger; smaller files go whole
MAX_PATH = 500  # characters of the name of an output file
UNSENT_KEPT_S = 30 * 86_400.0  # how long after its end a node keeps an attempt's files and the server takes them
CONTACT_LOST_S = 5.0
DEFAULT_LEASE_S = 600.0
MAX_FACTS_BYTES = 60_000  # of what a node finds in a dataset
STREAM_LIMIT_ENTRIES = 20_000
STREAM_LIMIT_BYTES = 256 * 1024 * 1024
MAX_SECRET_BYTES = 64 * 1024
