"""Unit tests of the metadata quorum."""
