"""Unit tests: a mirror of `src/tidelog`."""
