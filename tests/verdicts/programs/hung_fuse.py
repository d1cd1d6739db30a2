"""A FUSE file system that answers until it matters: hung_fuse.py MOUNTPOINT [SECONDS].

Says `mounted`, then `stuck OPCODE` for each request that it leaves unanswered. Unmounts when its stdin ends; its
death aborts the connection, so nobody stays stuck.

The root has one file, `file`, which can be opened; a read of it is never answered, nor a lookup of the name `hung`.
With SECONDS, a read is answered after as long. The layout of the messages is include/uapi/linux/fuse.h, version 7.23.
"""

import ctypes
import os
import struct
import sys
import threading
import time

LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, INIT, OPENDIR, INTERRUPT = 1, 2, 3, 14, 15, 17, 18, 26, 27, 36
ENOENT, ENOSYS = 2, 38
mountpoint = sys.argv[1]
delay_s = float(sys.argv[2]) if len(sys.argv) > 2 else 0
libc = ctypes.CDLL(None, use_errno=True)
device = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
if libc.mount(b"hung", mountpoint.encode(), b"fuse.hung", 0, options.encode()):
    sys.exit(os.strerror(ctypes.get_errno()))


def attributes(node):
    mode, size = (0o40755, 0) if node == 1 else (0o100644, 1 << 20)
    return struct.pack("=6Q3I7I", node, size, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def answer(unique, payload=b"", error=0):
    os.write(device, struct.pack("=IiQ", 16 + len(payload), -error, unique) + payload)


def serve():
    while True:
        try:
            request = os.read(device, 1 << 17)
        except OSError:
            return
        _, operation, unique, node = struct.unpack_from("=IIQQ", request)
        body = request[40:]
        if operation == INIT:
            answer(unique, struct.pack("=IIIIHHIIHHI", 7, 23, 0, 0, 1, 1, 4096, 0, 0, 0, 0)[:24])
            print("mounted", flush=True)
        elif operation == GETATTR:
            answer(unique, struct.pack("=QII", 0, 0, 0) + attributes(node))
        elif operation == LOOKUP and body.rstrip(b"\0") == b"file":
            answer(unique, struct.pack("=QQQQII", 2, 0, 0, 0, 0, 0) + attributes(2))
        elif operation == LOOKUP and body.rstrip(b"\0") != b"hung":
            answer(unique, error=ENOENT)
        elif operation in (OPEN, OPENDIR):
            answer(unique, struct.pack("=QII", 1, 0, 0))
        elif operation == READ and delay_s:
            time.sleep(delay_s)
            size = struct.unpack_from("=QQI", body)[2]
            answer(unique, b"x" * size)
        elif operation in (LOOKUP, READ):
            print("stuck", operation, flush=True)
        elif operation not in (FORGET, INTERRUPT):
            answer(unique, error=ENOSYS)


threading.Thread(target=serve, daemon=True).start()
threading.Thread(target=lambda: os.path.exists(mountpoint), daemon=True).start()
sys.stdin.read()
libc.umount2(mountpoint.encode(), 1 | 2)
os._exit(0)
