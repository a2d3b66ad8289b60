"""The APIs that a node serves: one module for each, `kNN_name.py`, with one declaration, `API`.

`declaration.py` defines the kinds of declarations, `registry.py` finds a declaration by its key,
and `catalogue.py` lists all of them. Handlers translate: they know versions and entities, the
components behind them do not.
"""
