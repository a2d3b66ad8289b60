"""TLS for the owners of sockets: key stores, and the contexts of Python's `ssl` made of them.

Nodes and clients share it. It reads files; it knows neither sockets nor event loops.

- `stores`: private keys and certificates out of PEM and PKCS12, from files or from the
  configuration itself;
- `contexts`: what `ssl` obeys on a listener, and towards a server;
- `cipher_names`: IANA's names of cipher suites and OpenSSL's.
"""
