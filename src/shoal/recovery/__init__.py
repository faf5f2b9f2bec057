"""The frontier rebuilt from the database and the archive, when it was emptied or has gone back in time.

`recovery.py` finds out what is lost, `way_back.py` brings a lost job back. `docs/guides/recovery.md` is for people,
ADR 0016 tells why.
"""
