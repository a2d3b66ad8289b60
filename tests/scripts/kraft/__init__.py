"""Golden scripts of the metadata quorum."""
