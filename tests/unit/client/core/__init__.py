"""The core, without a socket."""
