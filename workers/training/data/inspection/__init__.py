"""What files hold, described for people."""
