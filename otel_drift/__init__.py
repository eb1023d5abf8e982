"""Finds factual drift in the traces of RAG chats."""

__version__ = "0.1.0"
