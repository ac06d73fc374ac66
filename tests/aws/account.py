"""An account of AWS that is moto's server, for tests."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import httpx
import msgspec

from dashboard.up.parent_death import tethered
from tests.servers import free_port
from tests.up_process import ROOT

ID, SECRET_KEY, REGION = "AKIAIOSFODNN7EXAMPLE", "secret-of-the-tests", "eu-central-1"
ROLE = "arn:aws:iam::123456789012:role/training"  # of moto's account


class Account:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        words = [sys.executable, "-m", "tests.aws.moto_server", str(self.port), str(folder)]
        self._log = (folder / "moto.log").open("wb")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        self._process = subprocess.Popen(
            tethered(words), cwd=ROOT, env=environment, stdout=self._log, stderr=self._log, stdin=subprocess.DEVNULL
        )
        self._wait()

    def client(self, service: str) -> Any:
        return boto3.client(
            service, region_name=REGION, endpoint_url=self.url, aws_access_key_id=ID, aws_secret_access_key=SECRET_KEY
        )

    def settings(self, **changes: Any) -> dict[str, Any]:
        """Return the settings of a cluster in this account."""
        return {
            "region": REGION,
            "role": ROLE,
            "image": "123456789012.dkr.ecr.eu-central-1.amazonaws.com/trainyard:1",
            "instance_type": "ml.m5.xlarge",
            "subnets": ["subnet-0123456789abcdef0"],
            "security_groups": ["sg-0123456789abcdef0"],
            "file_system": "fs-0123456789abcdef0",
            "output": "s3://bucket/trainyard",
            "access_key_id": ID,
            "endpoint": self.url,
            **changes,
        }

    def faults(self, **faults: Any) -> None:
        """Have these go wrong from now on, and nothing else."""
        made = self.folder / "faults.new"
        made.write_bytes(msgspec.json.encode(faults))
        made.rename(self.folder / "faults.json")
        time.sleep(0.3)  # jobs are looked at ten times a second

    def open_jobs(self) -> list[str]:
        """Return the training jobs that have not ended."""
        found = []
        for status in ("InProgress", "Stopping"):
            answer = self.client("sagemaker").list_training_jobs(StatusEquals=status)
            found += [one["TrainingJobName"] for one in answer["TrainingJobSummaries"]]
        return found

    def secrets(self) -> list[str]:
        return [one["Name"] for one in self.client("secretsmanager").list_secrets()["SecretList"]]

    def make_role(self, service: str = "sagemaker.amazonaws.com") -> None:
        policy = (
            f'{{"Statement":[{{"Effect":"Allow","Principal":{{"Service":"{service}"}},"Action":"sts:AssumeRole"}}]}}'
        )
        self.client("iam").create_role(RoleName="training", AssumeRolePolicyDocument=policy)

    def reset(self) -> None:
        """Forget all objects, and then the faults: jobs that these held back would start in between."""
        httpx.post(f"{self.url}/moto-api/reset")
        self.faults()

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        self._log.close()

    def _wait(self) -> None:
        deadline = time.monotonic() + 60
        while True:
            try:
                httpx.get(f"{self.url}/moto-api/data.json", timeout=2)
                return
            except httpx.TransportError:
                log = (self.folder / "moto.log").read_text()
                assert self._process.poll() is None and time.monotonic() < deadline, log
                time.sleep(0.1)


@contextmanager
def running_account(folder: Path) -> Iterator[Account]:
    account = Account(folder)
    try:
        yield account
    finally:
        account.stop()
