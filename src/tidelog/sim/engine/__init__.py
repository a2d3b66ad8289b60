"""Virtual time and the machines in it: hosts with simulated disks, streams between them, clients.

`world.py` joins the parts; a process, a stream or a disk fails in the ways that its own module
lists.
"""
