"""Transaction coordinators: who may write, what belongs to a transaction, and how it ends."""
