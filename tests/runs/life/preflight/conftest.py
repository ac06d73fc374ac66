from tests.runs.life.reconcile.conftest import yard

__all__ = ["yard"]
