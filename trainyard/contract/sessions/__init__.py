"""Interactive sessions: a command, a terminal or a forwarded port beside a rank."""
