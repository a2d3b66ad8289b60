"""The pytest plugin of users' tests: a local cluster as a fixture."""
