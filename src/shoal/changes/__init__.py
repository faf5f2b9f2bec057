"""What is new, changed, gone and unchanged between two runs of a job: pages, and items."""
