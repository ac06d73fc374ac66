"""Every page of the site, with what is on it."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

from tests.browser.albums import told
from tests.servers import short_folder
from tests.up_process import ROOT, wait_until
from tests.whole.runs import Yard, example

# Name to path; what stands in braces is the id of something that is there.
PLACES = {
    "sign-in": "/sign-in/",
    "home": "/",
    "runs": "/runs/",
    "runs-filtered-to-none": "/runs/?q=nothing-of-that-name",
    "compare": "/runs/compare/?run={succeeded}&run={failed}",
    "compare-nothing": "/runs/compare/",
    "run-live": "/runs/{live}/",
    "run-charts": "/runs/{succeeded}/",
    "run-failed": "/runs/{failed}/",
    "run-ranks": "/runs/{succeeded}/ranks/",
    "run-system": "/runs/{succeeded}/system/",
    "run-plan": "/runs/{succeeded}/plan/",
    "run-logs": "/runs/{failed}/logs/",
    "run-media": "/runs/{media}/media/",
    "run-media-none": "/runs/{succeeded}/media/",
    "run-checkpoints": "/runs/{succeeded}/checkpoints/",
    "run-files": "/runs/{succeeded}/files/",
    "run-spec": "/runs/{succeeded}/spec/",
    "run-timeline": "/runs/{succeeded}/timeline/",
    "launch": "/launch/",
    "launch-benchmark": "/launch/?from=example:network",
    "launch-script": "/launch/?from=run:{failed}",
    "jobs": "/jobs/",
    "job": "/jobs/{job}/",
    "reports": "/reports/",
    "report": "/reports/{report}/",
    "new-report": "/reports/new/?run={succeeded}",
    "data": "/data/",
    "new-dataset": "/data/new/",
    "dataset": "/data/{dataset}/",
    "clusters": "/nodes/",
    "nodes": "/nodes/?view=table",
    "new-cluster": "/nodes/clusters/new/",
    "cluster-queue": "/nodes/clusters/local/queue/",
    "usage": "/usage/",
    "node": "/nodes/{node}/",
    "people": "/people/",
    "people-access": "/people/?part=access",
    "people-secrets": "/people/?part=secrets",
    "people-time": "/people/?part=time",
    "new-project": "/people/new-project/",
    "project-data": "/people/{project}/data/",
    "who-may-what": "/people/who-may-what/",
    "audit": "/audit/",
    "compliance": "/compliance/",
    "personal-data": "/account/data/",
    "notices": "/notices/",
    "own-notices": "/account/notices/",
    "project-notices": "/people/{project}/notices/",
    "own-secrets": "/account/secrets/",
    "invitation": "/invitations/{invitation}/",
    "account": "/account/",
    "not-found": "/runs/nothing/",
    "admin": "/admin/",
    "admin-runs": "/admin/runs/run/",
    "api-docs": "/api/v1/docs",
}
FOR_STRANGERS = ("sign-in", "invitation")  # others than those who are signed in see them


def furnish(office: Yard) -> dict[str, str]:
    """Make a job, a project, an invitation and a run with media, and return the ids of what pages are about."""
    job = office.post("/jobs", example("hello-gpt"))
    project = office.get("/projects")["items"][0]
    invitation = office.post(f"/projects/{project['id']}/invitations", {"email": "mate@example.org"})
    text = "# Seen\n\n```table\nfilter: created > -7d\n```\n\n{{ run/x loss last }}"
    report = office.post("/reports", {"project": "default", "title": "Seen", "body": text})
    with tempfile.TemporaryDirectory() as folder:
        script = (ROOT / "examples" / "media" / "train.py").read_text()
        media = told(office.up, Path(folder), script, "--steps", "120")
    return {
        "media": media,
        "report": report["id"],
        "job": job["id"],
        "project": project["id"],
        "dataset": looked_at(office),
        "node": office.get("/nodes")["items"][0]["id"],
        "invitation": invitation["secret"],
    }


def looked_at(office: Yard) -> str:
    """Return the id of a dataset, a table, that a node has looked at."""
    with short_folder("ty-grove-") as folder:
        folder.chmod(0o755)
        write_table(folder / "grove.csv")
        asked = {"name": "grove", "source": "csv", "location": f"{folder}/grove.csv", "options": {"target": "kind"}}
        dataset = str(office.post("/datasets", asked)["id"])
        wait_until(lambda: office.get(f"/datasets/{dataset}")["state"] == "ready", "a node has looked")
    return dataset


def write_table(path: Path, num_rows: int = 300) -> None:
    """Trees of two kinds, which their height tells apart."""
    chance = random.Random(0)
    lines = ["height,<b>site</b>,kind"]
    for _ in range(num_rows):
        kind = chance.choice(("oak", "oak", "elm"))
        lines.append(f"{chance.gauss(20 if kind == 'oak' else 10, 2):.3f},{chance.choice(('north', 'south'))},{kind}")
    path.write_text("\n".join(lines))
