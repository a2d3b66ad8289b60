"""Tests of metadata records, images and deltas."""
