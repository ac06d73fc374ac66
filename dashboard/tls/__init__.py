"""`trainyard tls`: the server's certificates, made by an authority of its own or brought by its owner."""
