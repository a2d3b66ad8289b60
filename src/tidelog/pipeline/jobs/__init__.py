"""The pipeline's Spark jobs: pure transforms from DataFrame to DataFrame, and thin mains."""
