"""The control plane's benchmarks: how long its clients wait, what they cost, and what survives a kill."""
