"""Hosts that mean no good: each plays one case, on a loopback address of its own, over plain sockets.

The rest of `tests.site` speaks HTTP correctly whatever it says; nothing here has to.
"""
