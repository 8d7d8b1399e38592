"""All SQL, and nothing but SQL: what the hub must remember across a restart.

Reads go through read-only connections; every write is a unit of work given to the one writer.
Times are milliseconds since 1970 in columns that end in `_ms`, and always come in as arguments.
"""
