"""Runs that go on without some of their ranks: for code that ends ranks, and for code that judges how a run ended."""

from trainyard.contract.base import SpecDocument


def outlives_workers(spec: SpecDocument) -> bool:
    """Return whether a run of this spec goes on when a rank dies, as long as rank 0, which holds its weights, lives."""
    parallel = spec.get("parallel") or {}
    return bool((parallel.get("synchronization") or {}).get("kind") == "parameter-server")
