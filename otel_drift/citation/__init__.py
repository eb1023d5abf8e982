"""Citations: the marks in an answer, what they point at and speak for, and answers written with checked ones."""
