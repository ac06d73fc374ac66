"""What a spec will cost on given nodes, before anything of it runs: arithmetic on plain values.

``estimate`` says what each rank holds, sends and waits for; ``best_plans`` looks for quicker ways to share the work.
"""

from trainyard.planner.facts import DataFacts, NodeFacts
from trainyard.planner.rates import Link, Rates
from trainyard.planner.results import Estimate, Memory, Proposal, StepTime

__all__ = ["DataFacts", "Estimate", "Link", "Memory", "NodeFacts", "Proposal", "Rates", "StepTime"]
