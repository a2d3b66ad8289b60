"""Golden scripts of replication."""
