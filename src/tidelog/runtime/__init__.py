"""The only asyncio, sockets, threads and clocks: the production driver of a node, and its process.

`driver` runs a core on a uvloop loop (`connection`, `dial`, `flusher`, `clock`); `server` makes a
process of it (`node_file`, `listening`, `log_lines`, `metrics`); `launch` forks the
nodes of a local cluster; `os_disk` is the disk.
"""
