"""Tests of the wire client, and the test double of brokers that all its users share."""
