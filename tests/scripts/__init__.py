"""Golden scripts: a comment, a command, a divider, the whole expected text."""
