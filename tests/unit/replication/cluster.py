"""The stage of replication, under the name that the tests of this room use."""

from tidelog.sim.replicas.broker import Broker
from tidelog.sim.replicas.cluster import CONFIG, LINK_MS, Call, Cluster, in_transit
from tidelog.sim.replicas.reading import Written, joined, records_of, values_in

__all__ = [
    "CONFIG",
    "LINK_MS",
    "Broker",
    "Call",
    "Cluster",
    "Written",
    "in_transit",
    "joined",
    "records_of",
    "values_in",
]
