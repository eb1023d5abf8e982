"""Langfuse: read sessions from it, write findings back to it."""
