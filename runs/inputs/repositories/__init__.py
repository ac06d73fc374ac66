"""Code from Git: repositories that the server fetches, so that a commit of them becomes a bundle as uploads do."""
