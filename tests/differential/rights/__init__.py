"""Rights, compared: the same requests of the same principals to Apache Kafka and to Tidelog.

    make differential-security          # needs Maven; three minutes on two cores
    make differential-security DIFFERENTIAL_SECURITY_ARGS="--parts controllers --only FETCH"

Both brokers have the same users, topics and access control entries. Each case is one request of one
user (`cases.py`), made from the table of rights of the unit tests, which is written by hand. A run
has three parts, each with brokers of its own: what clients ask brokers, what controllers are asked,
and both under `allow.everyone.if.no.acl.found`. The
answers are compared field by field, as those of the other differential tests are: a name or an id
that one broker shows and the other hides is a difference, and not only a code.
"""
