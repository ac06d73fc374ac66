"""Services that the server's processes share: the way to Valkey, hints to browsers, clocks, rates, certificates."""
