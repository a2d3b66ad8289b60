"""The promises P1 to P7 as families of runs; `docs/protocol/durability.md` has their words."""
