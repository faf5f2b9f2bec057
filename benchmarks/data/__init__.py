"""From pages to data: what extraction and outputs cost."""
