"""What repeats: runs that know the one before."""
