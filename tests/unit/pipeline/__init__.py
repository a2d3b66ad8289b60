"""Unit tests of the pipeline, without Spark and without a broker."""
