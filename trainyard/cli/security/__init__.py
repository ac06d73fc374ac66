"""Commands about secrets and the audit."""
