"""Modules that a rank needs, imported ahead of time by the process that ranks are forked from."""

import importlib

# Each was seen to be imported between the start of a rank and the end of its first step.
WARM_MODULES = (
    "numpy",
    "trainyard",
    "torch",
    "torch.distributed",
    "torch.nn.parallel",
    "torch.optim",
    "torch._dynamo",  # the first optimizer step imports it: 1.3 to 2.8 s
    "safetensors.torch",
    "workers.training.main",
    "workers.training.recipes.language_model",
    "workers.training.recipes.image_classifier",
    "workers.training.recipes.tabular",
)
# Imported once a rank has used them: a node that never needs them saves the time and 70 MB.
LATER_MODULES = ("sklearn.datasets",)


def warm() -> None:
    """Import WARM_MODULES and do nothing else: no operator runs, no thread starts, no GPU is touched.

    A fork copies only the thread that forks, so a parent that had used its pools would leave ranks that hang. The
    caller sets the variables of ``ONE_THREAD`` before, for numpy and pyarrow start threads as they are imported. Raises
    ImportError where there is no torch; what scripts without it need is imported by then.
    """
    for name in WARM_MODULES:
        importlib.import_module(name)
