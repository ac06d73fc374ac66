"""One file per way to spread a training over ranks; the order in which they compose stands in ``build.py``."""
