"""Simulator seeds as a Spark job."""
