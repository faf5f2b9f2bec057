"""The programs that Shoal is measured against; each is a module that is run as a process of its own."""
