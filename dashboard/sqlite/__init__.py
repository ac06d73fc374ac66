"""Django's SQLite backend with connections that outlive a request."""
