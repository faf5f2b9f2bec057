"""How work comes in: jobs, more URLs for open jobs, dead letters for another try."""
