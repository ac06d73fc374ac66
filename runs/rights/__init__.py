"""Who may do what, what is secret, and the audit of what was done."""
