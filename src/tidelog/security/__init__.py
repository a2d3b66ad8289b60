"""Who asks, and what a request needs: values that brokers and controllers share.

Left out, until there is an authorizer: access control lists, SASL, quotas.
"""
