"""In the peers' interpreter: trials by Ray Tune.

``python ray_tune.py TRIAL.py COUNT PARALLEL STEPS ANSWER PACKAGES``; the trial finds torch in the folder PACKAGES,
behind the peers' own packages.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    os.environ |= {"RAY_AIR_NEW_OUTPUT": "0", "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1", "RAY_DEDUP_LOGS": "0"}
    import ray
    from ray import tune

    path, count, parallel, steps, answer, packages = sys.argv[1:]
    spans = Path(answer).with_suffix(".spans")
    spans.mkdir()

    def trainable(config: dict[str, Any]) -> None:
        if packages not in sys.path:
            sys.path.append(packages)
        spec = importlib.util.spec_from_file_location("trial", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        value, first, last = module.train(config["lr"], config["width"], int(steps))
        (spans / f"{first}").write_text(json.dumps([first, last]))
        tune.report({"loss": value})

    ray.init(num_cpus=int(parallel), include_dashboard=False, logging_level=logging.ERROR)
    space = {"lr": tune.loguniform(1e-3, 0.5), "width": tune.randint(16, 65)}
    config = tune.TuneConfig(num_samples=int(count), max_concurrent_trials=int(parallel), metric="loss", mode="min")
    tune.Tuner(tune.with_resources(trainable, {"cpu": 1}), param_space=space, tune_config=config).fit()
    Path(answer).write_text(json.dumps([json.loads(one.read_text()) for one in spans.iterdir()]))


if __name__ == "__main__":
    main()
