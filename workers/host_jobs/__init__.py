"""What an SSH cluster's host does for the server: start a node, list nodes, end one, and leave nothing behind."""
