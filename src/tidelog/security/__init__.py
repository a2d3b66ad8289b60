"""Who asks, and what a request needs: values that brokers and controllers share.

`authorizer.py` decides by access control lists.
"""
