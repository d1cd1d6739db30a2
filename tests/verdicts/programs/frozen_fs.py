"""A small ext4 file system on a loop device, frozen (fsfreeze): frozen_fs.py MOUNTPOINT IMAGE. Says `frozen`. Thawed
and unmounted when its stdin ends."""

import subprocess
import sys

mountpoint, image = sys.argv[1:]


def run(*argv):
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


with open(image, "wb") as file:
    file.truncate(16 << 20)
run("mkfs.ext4", "-q", image)
run("mount", "-o", "loop", image, mountpoint)
try:
    run("chmod", "777", mountpoint)
    run("fsfreeze", "-f", mountpoint)
    print("frozen", flush=True)
    sys.stdin.read()
finally:
    subprocess.run(["fsfreeze", "-u", mountpoint], stderr=subprocess.DEVNULL)
    run("umount", "-l", mountpoint)
