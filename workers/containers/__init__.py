"""Ranks in containers: the node's Podman, the images that it has, and the containers that it starts."""
