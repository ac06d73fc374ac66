"""The pages docs/configuration*.md name every variable of ours that the code reads, and none that it does not."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("trainyard", "workers", "runs", "dashboard")
PAGE = "\n".join(page.read_text() for page in sorted((ROOT / "docs").glob("configuration*.md")))
OURS = re.compile(r"\bTRAINYARD_[A-Z]+(?:_[A-Z]+)*\b")
READ = re.compile(r"""(?:environ(?:\.get\(|\[)|number\()\s*["']([A-Z][A-Z_]+)["']""")
# The machine's own, which we only look at.
THE_MACHINES = {
    "PATH",
    "LANG",
    "RANK",
    "GITHUB_EVENT_NAME",  # as all that says whose pipeline it is: docs/pipelines.md
    "SLURM_CONF",  # documented where Slurm is: docs/clusters_slurm.md
    "SLURM_PROCID",
    "SAGEMAKER_BASE_DIR",
    "XDG_RUNTIME_DIR",
    "SSL_CERT_FILE",
    "PIP_CERT",
    "CUDA_VISIBLE_DEVICES",
    "NODE_OPTIONS",
    "PYTHONPATH",
    "HF_HUB_DISABLE_XET",  # the library's of the Hugging Face hub
    "GROUP_WORLD_SIZE",  # torchrun's
    "PMI_SIZE",  # of the launcher of MPICH
    "TORCHELASTIC_ERROR_FILE",
    "TORCHELASTIC_RESTART_COUNT",
    "TORCHELASTIC_RUN_ID",
    "MLFLOW_ALLOW_FILE_STORE",
}


def sources() -> str:
    files = (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))
    return "\n".join(path.read_text() for path in files)


def test_every_variable_that_is_read_is_documented() -> None:
    text = sources()
    used = set(OURS.findall(text)) | set(READ.findall(text)) - THE_MACHINES
    missing = {name for name in used if f"`{name}`" not in PAGE}
    assert not missing


def test_every_documented_variable_is_used() -> None:
    text = sources()
    named = set(re.findall(r"^\| `([A-Z][A-Z_]+)` \|", PAGE, re.MULTILINE))
    assert named, "the page has its tables"
    assert not {name for name in named if name not in text}
