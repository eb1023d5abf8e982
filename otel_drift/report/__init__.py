"""What people see: the terminal timeline, `inspect` and the HTML page. Trace text passes `escape` first."""
