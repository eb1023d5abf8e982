"""Receives otel-drift's webhooks: checks the signature, acts once on each alert, asks for nothing of the trace.

    OTEL_DRIFT_WEBHOOK_SECRET=whsec_… python examples/webhook_receiver.py 8099

Then, in otel-drift.toml: ``[alerts] to = ["webhook:http://127.0.0.1:8099/"]``.
"""

from __future__ import annotations

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

from otel_drift.alerts.webhook_signature import SignatureError, verify


class Receiver(HTTPServer):
    """Keeps what it has seen in memory; a real one keeps it where it acts, in the same transaction."""

    def __init__(self, port: int, secret: str) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.secret = secret
        self.seen: set[str] = set()
        self.firing: dict[str, str] = {}

    def take(self, body: bytes) -> None:
        """Act on each alert, by its key: a repetition or an older message changes nothing."""
        for alert in json.loads(body)["data"]["alerts"]:
            known = self.firing.get(alert["key"])
            if alert["state"] == "firing" and known != alert["started"]:
                self.firing[alert["key"]] = alert["started"]
                print(f"FIRING   {alert['severity']} {alert['type']} {alert['link'] or alert['span_ref']}", flush=True)
            elif alert["state"] == "resolved" and known is not None:
                del self.firing[alert["key"]]
                print(f"RESOLVED {alert['severity']} {alert['type']} {alert['link'] or alert['span_ref']}", flush=True)


class Handler(BaseHTTPRequestHandler):
    """Answers 204 once it has taken a message, and 401 to what does not come from otel-drift."""

    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(min(int(self.headers.get("Content-Length") or 0), 1_000_000))
        try:
            message_id = verify(dict(self.headers.items()), body, self.server.secret)
        except SignatureError as error:
            self.send_error(401, explain=str(error))
            return
        if message_id not in self.server.seen:
            self.server.take(body)
            self.server.seen.add(message_id)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


if __name__ == "__main__":
    Receiver(int(sys.argv[1]), os.environ["OTEL_DRIFT_WEBHOOK_SECRET"]).serve_forever()
