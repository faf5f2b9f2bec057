"""Who is told what happens: endpoints, messages, and how they get there."""
