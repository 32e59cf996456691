"""A receiver of webhooks that runs on a machine: writes a line for each delivery before it answers.

`python -m tests.cluster.machine_receiver PORT FILE`; a line has the event id and the signature of its transaction.
"""

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    output: int

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        line = f"{self.headers['X-Webhook-Event-Id']} {body.get('signature', '-')}\n"
        os.write(self.output, line.encode())  # Below the size up to which appends of several processes stay whole.
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


def main(port: int, path: str) -> None:
    Handler.output = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
