"""How the admin writes times: Django looks here for the formats of a language."""
