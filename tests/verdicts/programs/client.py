"""A client: client.py HOST PORT [MODE]. Says `connected`, then does what MODE says.

read: waits for data                            ask: sends a question first, then waits
send: on a line from stdin, sends, then waits   flood: sends until it blocks
keepalive: waits, with keep-alive probes every second
patient: waits with a timeout of 60 s (poll)    retry: waits 0.3 s at a time, for ever
"""

import socket
import sys

host, port, mode = sys.argv[1], int(sys.argv[2]), (sys.argv[3:] or ["read"])[0]
link = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
if mode == "keepalive":
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL):
        link.setsockopt(socket.IPPROTO_TCP, option, 1)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 100)
if mode == "flood":
    link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
link.connect((host, port))
print("connected", flush=True)
if mode == "patient":
    link.settimeout(60)
if mode == "retry":
    link.settimeout(0.3)
if mode == "ask":
    link.sendall(b"question\n")
if mode == "send":
    sys.stdin.readline()
    link.sendall(b"x" * 4000)
    print("sent", flush=True)
while mode == "flood":
    link.sendall(b"x" * 65536)
while True:
    try:
        if not link.recv(65536):
            break
    except TimeoutError:
        continue
