"""Apps of runs in a browser: HTTP and WebSockets from an origin of their own, over sessions, to ports on nodes."""
