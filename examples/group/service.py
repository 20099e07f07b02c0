#!/usr/bin/env python3
"""A small service of its own: sessions that expire, and a ledger of dated entries, by lines over TCP.

It knows nothing of replicas or of Truechimer. Usage: service.py PORT

    LOGIN NAME      -> until when the session lasts
    WHO             -> who has a session now
    PAY NAME CENTS  -> the entry, with its date and time
    BOOK            -> a digest of all entries
    NOW             -> the date and time
"""
import datetime
import hashlib
import socketserver
import sys
import threading
import time

SESSION = 0.25  # seconds
sessions = {}
book = []
lock = threading.Lock()


def answer(words):
    now = time.time()
    if words[:1] == ["LOGIN"] and len(words) == 2:
        sessions[words[1]] = now + SESSION
        return f"until {now + SESSION:.6f}"
    if words == ["WHO"]:
        return " ".join(sorted(name for name, end in sessions.items() if end > now)) or "nobody"
    if words[:1] == ["PAY"] and len(words) == 3:
        entry = f"{len(book)} {datetime.datetime.now().isoformat()} {words[1]} {words[2]}"
        book.append(entry)
        return entry
    if words == ["BOOK"]:
        return hashlib.sha256("\n".join(book).encode()).hexdigest()
    if words == ["NOW"]:
        return f"{time.time_ns()} {datetime.datetime.now().isoformat()}"
    return "what?"


class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            with lock:
                reply = answer(line.decode(errors="replace").split())
            self.wfile.write(reply.encode() + b"\n")


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with Server(("127.0.0.1", int(sys.argv[1])), Handler) as server:
        server.serve_forever()
