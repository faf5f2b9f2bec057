"""Pages of many kinds, written by hand, each with the text that a reader would call its main content."""
