"""Data from URLs: web servers, object stores and archives, copied once into the cache of the node."""
