"""Long answers: their sentences and sections, how they are cut for a judge, and how files become sessions."""
