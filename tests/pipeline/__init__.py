"""Tests of the pipeline that need Spark, and of the whole job."""
