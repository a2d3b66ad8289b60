"""Tests on real Spark clusters: `make spark-clusters`, not part of `make test`."""
