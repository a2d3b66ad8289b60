"""One seed from start to judgement: whole nodes, the quorum alone, and the special runs."""
