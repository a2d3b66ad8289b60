"""The table sink: files, commits that say which offsets they hold, and their account."""
