"""A folder holds no more modules than a reader takes in at one look."""

from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MOST_MODULES = 15
ROOTS = ("trainyard", "workers", "runs", "dashboard", "benchmarks", "static", "examples")
NOT_COUNTED = {"migrations", "node_modules", "vendor", "__pycache__"}


def modules_by_folder() -> Counter[str]:
    """Count the Python and JavaScript modules of each folder; ``__init__.py`` and migrations are not counted."""
    return Counter(
        str(path.parent.relative_to(ROOT))
        for root in ROOTS
        for path in (ROOT / root).rglob("*")
        if path.suffix in (".py", ".js") and path.name != "__init__.py" and not NOT_COUNTED & set(path.parts)
    )


def test_no_folder_holds_more_modules_than_a_reader_takes_in() -> None:
    too_full = {folder: number for folder, number in modules_by_folder().items() if number > MOST_MODULES}
    assert too_full == {}, f"at most {MOST_MODULES} modules: make a folder for some of them"
