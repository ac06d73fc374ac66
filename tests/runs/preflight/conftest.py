from tests.runs.reconcile.conftest import yard

__all__ = ["yard"]
