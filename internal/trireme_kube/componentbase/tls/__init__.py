"""TLS of servers: certificates that change, versions, ciphers, expiry."""
