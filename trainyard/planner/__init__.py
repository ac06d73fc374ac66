"""Cost of a spec on given nodes, before anything of it runs: arithmetic on plain values.

``estimate`` says what each rank holds, sends and waits for; ``best_plans`` looks for quicker ways to share the work.
docs/decisions/planner.md has the model behind it, and how near it comes.
"""

from trainyard.planner.estimating import estimate, model_flops
from trainyard.planner.machines import DataFacts, Link, NodeFacts, Rates, default_rates
from trainyard.planner.plans import best_plans
from trainyard.planner.results import Estimate, Memory, Proposal, StepTime
