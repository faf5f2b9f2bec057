"""What is wrong with an installation, what that means, and the command that mends it."""
