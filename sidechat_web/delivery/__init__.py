"""What a record's growth looks like on a socket: one feed a session and process, shared by its viewers."""
