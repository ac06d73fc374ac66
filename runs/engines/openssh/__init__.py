"""Running programs on other machines with OpenSSH's own `ssh`: by key, and only where the host key is known."""
