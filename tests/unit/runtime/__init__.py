"""Tests of the production driver, over real sockets and threads."""
