"""People as the outside knows them: sign-in by identity providers, and SCIM."""
