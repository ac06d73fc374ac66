"""Content of files, described for people."""
