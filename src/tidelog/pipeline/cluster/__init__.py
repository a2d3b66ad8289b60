"""Talking to brokers: connections, requests, and what a cluster says of its topics."""
