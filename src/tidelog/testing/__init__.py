"""What users' tests need: `LocalCluster`, a cluster of real node processes, and the plugin with it.

`local_cluster` is the front; `node_processes`, `cluster_state`, `launching` and `processes` run
the nodes, `admin_client` asks them. Importing the package imports nothing else: `LocalCluster` is
fetched when it is first named.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidelog.testing.local_cluster import LocalCluster

__all__ = ["LocalCluster"]


def __getattr__(name: str) -> Any:
    if name == "LocalCluster":
        from tidelog.testing.local_cluster import LocalCluster

        return LocalCluster
    raise AttributeError(name)
