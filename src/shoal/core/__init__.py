"""The domain: values and decisions, no I/O."""
