"""The table sink: files, commits with the ranges of offsets that they hold, and their account."""
