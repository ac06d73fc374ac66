"""Where PostgreSQL's programs are. Set-up runs this before any package is installed: the standard library alone."""

import shutil
from pathlib import Path

FOLDERS = ("/usr/lib/postgresql", "/usr/pgsql*", "/opt/homebrew/opt/postgresql*", "/usr/local/opt/postgresql*")


def find_postgres_folder() -> Path | None:
    """The folder with `initdb` and `postgres`, the newest first; Debian keeps it off PATH."""
    on_path = shutil.which("postgres")
    if on_path and shutil.which("initdb"):
        return Path(on_path).parent
    folders: list[Path] = []
    for pattern in FOLDERS:
        base = Path(pattern)
        folders += [*base.parent.glob(f"{base.name}/bin"), *base.parent.glob(f"{base.name}/*/bin")]
    usable = [folder for folder in folders if (folder / "postgres").exists() and (folder / "initdb").exists()]
    return max(usable, key=lambda folder: [int(part) for part in folder.parts if part.isdigit()], default=None)
