"""An internet of its own in a network namespace: public and private addresses, a name server, a site, and canaries."""
