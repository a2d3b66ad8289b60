"""DescribeCluster (60), versions 0-2, on controller listeners (KIP-919), where it needs ALTER."""

from typing import Final

from tidelog.broker.api.checks import SHOWN, cluster
from tidelog.broker.api.declaration import CONTROLLERS, LocalApi, VersionRange
from tidelog.broker.api.k60_describe_cluster import handle
from tidelog.security.rights import Operation
from tidelog.wire.api import ApiKey

API: Final = LocalApi(
    key=ApiKey.DESCRIBE_CLUSTER,
    doc=__doc__,
    listeners=CONTROLLERS,
    versions=VersionRange(0, 2),
    requires=(cluster(Operation.ALTER, renamed={"endpoint_type": 1}), SHOWN),
    handle=handle,
)
