"""What checkers judge by: what clients did, what was committed, what lies on the devices."""
