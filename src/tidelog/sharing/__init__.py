"""Share groups on the leader of a partition: who has which record, how often, and until when."""
