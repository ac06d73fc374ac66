"""A small library of Python sources, to stand in the place of Python's own."""

from __future__ import annotations

from pathlib import Path


def make_library(folder: Path) -> Path:
    root = folder / "library"
    for index in range(60):
        package = root / f"package{index % 3}"
        package.mkdir(parents=True, exist_ok=True)
        (package / f"module{index}.py").write_text(f"NUMBER = {index}\n" * 20)
    (root / "test").mkdir()
    (root / "test" / "test_it.py").write_text("TEST" * 50)
    (root / "site-packages").mkdir()
    (root / "site-packages" / "other.py").write_text("INSTALLED" * 50)
    return root
