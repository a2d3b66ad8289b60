"""What is kept of a run: its outcome, the rare states it reached, how long it had no leaders."""
