"""The topic source `format("tidelog")`: options to ranges, ranges to record batches."""
