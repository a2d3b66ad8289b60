"""The APIs that a node serves: one module for each, `kNN_name.py`, with one declaration, `API`.

`declaration.py` says what a declaration is, `registry.py` holds all of them, and `catalogue.py` is
the list. Handlers translate: they know versions and entities, the components behind them do not.
"""
