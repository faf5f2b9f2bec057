"""Sample sites and the small web server that plays them to crawlers under test.

A site is a pure function from (target, nth request for it) to a `Reply`; the server adds sockets,
counting and an access log, and nothing else.
"""
