"""What people ask for about their own data, and owners about their projects'."""
