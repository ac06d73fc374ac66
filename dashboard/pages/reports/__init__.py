"""Reports: texts with charts, tables and numbers of runs, as they are now or as they were when somebody saved them."""
