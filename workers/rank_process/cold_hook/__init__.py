"""A folder that PYTHONPATH leads cold ranks to: see sitecustomize."""
