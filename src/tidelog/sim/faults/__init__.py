"""What can go wrong in a run, what may go wrong at the same time, and who makes it go wrong."""
