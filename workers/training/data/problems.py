"""Problems of somebody's data, in words for that person. Classes of failures go by these names."""


class DataProblem(ValueError):
    """Data that cannot be trained on. The message is one sentence that names the field or the file, the row where
    there is one, and what to do; the run is FAILED with it."""


class NodeDataProblem(DataProblem):
    """Data that this node cannot use, and another may: its disk, its cache, a permission, a file that is not there."""


class OthersDataProblem(DataProblem):
    """Another rank cannot use its data, and this one has nothing to complain of. The message names that rank."""
