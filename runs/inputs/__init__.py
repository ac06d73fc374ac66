"""What a run begins with: code from repositories, and datasets."""
