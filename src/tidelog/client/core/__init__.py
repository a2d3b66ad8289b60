"""The client without I/O: no socket, no clock, no event loop."""
