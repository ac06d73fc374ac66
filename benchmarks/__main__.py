"""`python -m benchmarks [NAME ...]`: run `benchmarks/bench_NAME.py`, all where no name is given."""

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
PREFIX = "bench_"


def names() -> list[str]:
    return sorted(path.stem.removeprefix(PREFIX) for path in FOLDER.glob(f"{PREFIX}*.py"))


def main(wanted: list[str]) -> int:
    unknown = sorted(set(wanted) - set(names()))
    if unknown:
        print(f"There is no benchmark named {', '.join(unknown)}. There are: {', '.join(names()) or 'none yet'}.")
        return 2
    failed = []
    for name in wanted or names():
        print(f"--- {name}", flush=True)
        done = subprocess.run([sys.executable, "-m", f"benchmarks.{PREFIX}{name}"], cwd=FOLDER.parent, check=False)
        if done.returncode != 0:
            failed.append(name)
    if failed:
        print(f"Failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
