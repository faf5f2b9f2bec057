"""What became of one URL of a job, gathered from database and frontier, or worked out by the job's rules."""
