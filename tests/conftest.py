"""What holds for all tests: a table is as wide as in a pipe, wherever they run."""

import os

# pytest-xdist sets 80 for its processes.
os.environ.pop("COLUMNS", None)
