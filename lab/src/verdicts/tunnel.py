"""Relays IP packets between two TUN devices, one of them in a network namespace.

Usage: tunnel.py NAMESPACE LOSS_PERCENT DELAY_MS. Prints `ready` and runs until it is killed. Packets are
lost independently in both directions; a delay keeps their order.
"""

import ctypes
import fcntl
import os
import random
import select
import struct
import subprocess
import sys
import time

TUNSETIFF, IFF_TUN, IFF_NO_PI, CLONE_NEWNET = 0x400454CA, 0x0001, 0x1000, 0x40000000


def device(name):
    handle = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(handle, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    return handle


def up(name, address):
    for line in (f"ip addr add {address}/24 dev {name}", f"ip link set {name} up"):
        subprocess.run(line.split(), check=True)


def main():
    namespace, loss, delay = sys.argv[1], float(sys.argv[2]) / 100, float(sys.argv[3]) / 1000
    client = device("tokotun0")
    up("tokotun0", "10.78.0.1")
    with open(f"/var/run/netns/{namespace}") as space:
        if ctypes.CDLL(None, use_errno=True).setns(space.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "cannot enter the namespace")
    server = device("tokotun1")
    up("tokotun1", "10.78.0.2")
    print("ready", flush=True)
    chance = random.Random(1)
    other = {client: server, server: client}
    waiting = []  # (due, handle, packet), in order
    while True:
        pause = max(0.0, waiting[0][0] - time.monotonic()) if waiting else 1.0
        ready, _, _ = select.select([client, server], [], [], pause)
        now = time.monotonic()
        for handle in ready:
            while True:
                try:
                    packet = os.read(handle, 65536)
                except BlockingIOError:
                    break
                if chance.random() >= loss:
                    waiting.append((now + delay, other[handle], packet))
        while waiting and waiting[0][0] <= time.monotonic():
            _, handle, packet = waiting.pop(0)
            try:
                os.write(handle, packet)
            except (BlockingIOError, OSError):
                pass


main()
