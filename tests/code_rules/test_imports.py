"""Imports flow one way, and a process loads only the packages that it may."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# What a fresh interpreter runs, and what must not be loaded after it.
CLEAN = {
    "the SDK": ("import trainyard", ["django", "torch", "pydantic", "numpy", "httpx", "rich", "yaml", "asyncio"]),
    "the spec": ("import trainyard.spec", ["django", "torch"]),
    "the terminal": ("import trainyard.cli", ["django", "torch", "celery"]),
    "the states": ("import trainyard.contract.statuses", ["django", "torch", "pydantic"]),
    "the contract": (
        "import trainyard.contract.desired, trainyard.contract.seals, trainyard.contract.reports",
        ["django", "torch", "celery", "pydantic", "cryptography"],
    ),
    "locked orders": ("import trainyard.contract.seals", ["django", "torch", "celery"]),
    "the site": ("import dashboard.asgi, runs.actions, runs.ingest", ["torch"]),
    "the set-up": ("import dashboard.setup.__main__", ["django", "torch", "celery", "pydantic"]),
}


@pytest.mark.parametrize("name", CLEAN)
def test_a_clean_interpreter_loads_nothing_forbidden(name: str) -> None:
    code, forbidden = CLEAN[name]
    report = f"{code}\nimport sys\nprint('loaded:', *[name for name in {forbidden!r} if name in sys.modules])"
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
    if "django" not in forbidden:
        # Node code must run without it: the variable alone switches Celery's Django fixup on.
        environment["DJANGO_SETTINGS_MODULE"] = "dashboard.settings"
    done = subprocess.run(
        [sys.executable, "-c", report], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "loaded:"


@pytest.mark.parametrize(
    "module", ["workers.node.main", "workers.transport.commands", "workers.forking.zygote", "workers.training"]
)
def test_node_code_runs_where_django_is_not_installed(module: str) -> None:
    """Celery's own library looks for Django and takes what it finds, so here it must not be there to find."""
    code = f"import sys; sys.modules['django'] = None; import {module}"
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("module", ["dashboard", "dashboard.setup.__main__", "tests.machine", "runs", "workers"])
def test_what_runs_before_anything_is_installed_needs_the_standard_library_alone(module: str) -> None:
    """`dashboard.setup` does, with the packages that it lies in; `workers` is imported where there is no Django."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); import {module}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_contract_between_product_and_nodes_imports_nothing_else_of_ours() -> None:
    for path in (ROOT / "trainyard" / "contract").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or "."] if isinstance(node, ast.ImportFrom) else []
            ours = [name for name in names if name.split(".")[0] in ("", "trainyard", "workers", "runs", "dashboard")]
            assert all(name.startswith("trainyard.contract") for name in ours), path
