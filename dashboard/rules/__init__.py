"""Which permission each route asks for. Nothing here decides: the loaders of runs.rights.access do. The table of routes
and roles is printed from these lines, and tests call each route as each role and compare."""
