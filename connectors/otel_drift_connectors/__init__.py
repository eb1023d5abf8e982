"""Sources and sinks, one file a platform."""
