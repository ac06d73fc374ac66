"""Folders of templates, static files, examples and npm packages: in the repository, or beside us where a wheel was
installed (``setup.py`` puts them there). Imports nothing of Django."""

from pathlib import Path

INSTALLED = Path(__file__).resolve().parent / "assets"
ROOT = INSTALLED if INSTALLED.is_dir() else INSTALLED.parents[1]
EXAMPLES = ROOT / "examples"
