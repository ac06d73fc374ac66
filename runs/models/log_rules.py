"""The rules of the log that hold for a run: those of its spec, and those of its cluster."""

from runs.models.runs import Run
from trainyard.contract.orders import LogRule
from trainyard.spec.sections.log_rules import rules_of, stored_rules


def log_rules_of(run: Run) -> list[LogRule]:
    """Return them; a rule of the spec stands for one of its cluster with the same label."""
    own = rules_of(run.spec)
    labels = {rule.label for rule in own}
    of_cluster = stored_rules(run.cluster.log_rules if run.cluster is not None else [])
    return [*own, *(rule for rule in of_cluster if rule.label not in labels)]
