"""`python -m dashboard.doctor --cluster NAME`: whether a cluster can run what is launched on it, and what to mend."""

from __future__ import annotations

import argparse
import os
import sys

import django


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="trainyard doctor", description="Say what keeps a cluster from training.")
    parser.add_argument("--cluster", required=True, metavar="NAME", help="the cluster to look at")
    options = parser.parse_args(arguments)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    django.setup()
    return examine(options.cluster)


def examine(name: str) -> int:
    """Print one line for each step; return 0 where all is well."""
    from runs.engines import engine_of  # Django is ready by now
    from runs.models import Cluster

    cluster = Cluster.objects.filter(name=name).first()
    if cluster is None:
        known = ", ".join(Cluster.objects.values_list("name", flat=True)) or "none"
        print(f"There is no cluster {name!r}; there are: {known}.", file=sys.stderr)
        return 1
    num_wrong = 0
    for finding in engine_of(cluster).examine(cluster):
        mark = {True: "ok", False: "FAILED", None: "-"}[finding.is_fine]
        print(f"{mark:<7} {finding.step:<11} {finding.sentence}", flush=True)
        if finding.is_fine is False:
            num_wrong += 1
            if finding.advice:
                print(f"{'':<19} {finding.advice}", flush=True)
    print(f"Cluster {name} is ready." if not num_wrong else f"Cluster {name} is not ready: mend what FAILED.")
    return 1 if num_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
