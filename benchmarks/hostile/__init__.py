"""What the defences against a hostile web cost, and what they bear."""
