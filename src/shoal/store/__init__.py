"""What outlives Redis: rows and archived bytes."""
