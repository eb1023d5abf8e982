"""The service: receives or follows production traces, audits sessions as they settle, tells whom it may concern."""
