"""Virtual time and the machines in it: hosts with simulated disks, streams between them, clients.

`world.py` joins the parts; each module lists the ways in which its process, stream or disk fails.
"""
