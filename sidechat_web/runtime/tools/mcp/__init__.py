"""Tools of MCP servers: what the operator configured, what the servers offer, and calls over live connections.

`servers` says which servers there are, `listing` keeps what each offers so that schemas can be named without a
connection, `transports` and `connections` speak to them, `source` makes tools of it all.
"""
