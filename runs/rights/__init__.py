"""Rights of people, secrets, and the audit of what was done."""
