"""The programs that Shoal is measured against: scripts that run in environments of their own.

They import one another, and neither Shoal nor the meter: only what belongs to a stack may be measured with it.
"""
