"""Tests of the configuration tables and their resolution."""
