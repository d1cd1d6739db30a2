"""Holds a lock on a file until its stdin ends: hold_lock.py flock|fcntl|ofd|sqlite PATH. Says `held`."""

import fcntl
import os
import sqlite3
import struct
import sys

kind, path = sys.argv[1:]
if kind == "sqlite":
    base = sqlite3.connect(path, isolation_level=None)
    base.execute("create table if not exists t (n)")
    base.execute("begin exclusive")
else:
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    if kind == "flock":
        fcntl.flock(file, fcntl.LOCK_EX)
    elif kind == "fcntl":
        fcntl.lockf(file, fcntl.LOCK_EX)
    else:
        f_ofd_setlk = 37
        fcntl.fcntl(file, f_ofd_setlk, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
os.chmod(path, 0o666)
print("held", flush=True)
sys.stdin.read()
