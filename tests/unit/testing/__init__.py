"""Tests of the local cluster and the administrator's client, without real nodes."""
