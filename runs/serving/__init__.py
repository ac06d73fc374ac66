"""What processes of the server share: the way to Valkey, hints to browsers, clocks, rates, certificates."""
