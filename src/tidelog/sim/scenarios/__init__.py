"""What a seed decides before anything happens: options, fault kinds, families of runs."""
