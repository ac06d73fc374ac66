"""Names of the sets of real data on every node. ``builtin``, which takes long to import, makes their samples."""

import importlib.metadata

TABLES = {"breast-cancer": "load_breast_cancer", "iris": "load_iris", "wine": "load_wine", "diabetes": "load_diabetes"}
BUILTIN = ("digits", *TABLES)


def builtin_version() -> str:
    """Return what the content of these sets depends on."""
    return importlib.metadata.version("scikit-learn")
