"""Services of an SSH cluster's host for the server: start a node, list nodes, end one, and leave nothing behind."""
