"""The fault drill: a crawl of a local site whose processes are killed and frozen, held against the site's own log."""
