"""Share coordinators: what share groups have done with the records of each partition."""
