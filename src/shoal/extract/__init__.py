"""Pages in, links and items out."""
