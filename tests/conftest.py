"""What holds for all tests: a table is as wide as in a pipe, wherever they run."""

import os

# Whoever runs the tests in several processes is told 80 here.
os.environ.pop("COLUMNS", None)
