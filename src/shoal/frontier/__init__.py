"""The Redis structure that holds every request that is not finished."""
