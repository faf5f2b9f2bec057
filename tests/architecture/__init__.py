"""What must hold for the source itself."""
