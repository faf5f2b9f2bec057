"""How Shoal treats hosts, jobs and tenants: seen from the hosts, in the log of a web server that we play ourselves."""
