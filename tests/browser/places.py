"""Every page of the site, with what is on it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.browser.albums import told
from tests.up_process import ROOT
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
    "run-logs": "/runs/{failed}/logs/",
    "run-media": "/runs/{media}/media/",
    "run-media-none": "/runs/{succeeded}/media/",
    "run-checkpoints": "/runs/{succeeded}/checkpoints/",
    "run-files": "/runs/{succeeded}/files/",
    "run-spec": "/runs/{succeeded}/spec/",
    "run-timeline": "/runs/{succeeded}/timeline/",
    "launch": "/launch/",
    "launch-script": "/launch/?from=run:{failed}",
    "jobs": "/jobs/",
    "job": "/jobs/{job}/",
    "clusters": "/nodes/",
    "new-cluster": "/nodes/clusters/new/",
    "node": "/nodes/{node}/",
    "people": "/people/",
    "new-project": "/people/new-project/",
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
    with tempfile.TemporaryDirectory() as folder:
        script = (ROOT / "examples" / "media" / "train.py").read_text()
        media = told(office.up, Path(folder), script, "--steps", "120")
    return {
        "media": media,
        "job": job["id"],
        "node": office.get("/nodes")["items"][0]["id"],
        "invitation": invitation["secret"],
    }
