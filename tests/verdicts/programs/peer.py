"""A peer that behaves as told: peer.py MODE HOST [PORT]. Says `port N`, then what happens, a word a line. Ends when
its stdin does.

hold: accepts, reads, never answers        mute: accepts, never reads
drip: sends 2 kB every tenth of a second   tick: sends 8 bytes every 0.3 s
sip: accepts, reads 2 kB five times a second, with a small window
backlog: a full queue, never accepts       login: answers each request with 401
dns: takes questions and keeps quiet       unix: as hold, on the Unix socket HOST
"""

import os
import socket
import sys
import threading
import time

mode, host = sys.argv[1:3]
port = int(sys.argv[3]) if len(sys.argv) > 3 else 0


def say(*words):
    # One write: print() makes two of it, and threads would mix them.
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def serve(connection):
    say("accepted")
    if mode == "mute":
        return
    if mode in ("drip", "tick"):
        size, pause = (2048, 0.1) if mode == "drip" else (8, 0.3)
        try:
            while True:
                connection.sendall(b"x" * size)
                time.sleep(pause)
        except OSError:
            return
    while True:
        if mode == "sip":
            time.sleep(0.2)
        try:
            data = connection.recv(2048 if mode == "sip" else 65536)
        except OSError:
            return
        if not data:
            return
        say("data")
        if mode == "login":
            connection.sendall(
                b'HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm="here"\r\nContent-Length: 0\r\n\r\n'
            )


def main():
    if mode == "dns":
        listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        listener.bind((host, port or 53))
        say("port", listener.getsockname()[1])
        while True:
            listener.recv(4096)
            say("data")
    if mode == "unix":
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(host)
        os.chmod(host, 0o777)
    else:
        listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        if mode in ("mute", "sip"):
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    listener.listen(0 if mode == "backlog" else 64)
    say("port", 0 if mode == "unix" else listener.getsockname()[1])
    kept = []
    if mode == "backlog":
        # A queue of 0 takes one; a second try that does not get through shows that it is full.
        for _ in range(2):
            filler = socket.socket()
            filler.settimeout(0.5)
            kept.append(filler)
            try:
                filler.connect(listener.getsockname())
            except OSError:
                break
        say("full")
        time.sleep(3600)
    while True:
        connection, _ = listener.accept()
        kept.append(connection)
        threading.Thread(target=serve, args=(connection,), daemon=True).start()


threading.Thread(target=main, daemon=True).start()
sys.stdin.read()
os._exit(0)
