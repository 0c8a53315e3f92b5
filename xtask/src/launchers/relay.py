"""Moves packets between the TUN devices of two network namespaces, with delay, jitter and loss.

usage: relay.py PID_A PID_B OUT_MS BACK_MS JITTER_MS LOSS_PERCENT SEED

`out` is the delay from B (a shard) to A (the leader), `back` that of the answers. Prints `ready` once
both devices are up. Packets of one direction keep their order, as on a path without reordering.
"""

import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import sys
import time

TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
CLONE_NEWNET = 0x40000000


def enter(pid):
    with open(f"/proc/{pid}/ns/net") as namespace:
        if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")


def device(address):
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", b"tun0", IFF_TUN | IFF_NO_PI))
    for line in (f"addr add {address}/24 dev tun0", "link set tun0 up", "link set lo up"):
        subprocess.run(["ip", *line.split()], check=True)
    return tun


def main():
    pid_a, pid_b = sys.argv[1:3]
    out_s, back_s, jitter_s = (float(word) / 1000 for word in sys.argv[3:6])
    loss, seed = float(sys.argv[6]) / 100, int(sys.argv[7])
    enter(pid_a)
    a = device("10.77.0.1")
    enter(pid_b)
    b = device("10.77.0.2")
    print("ready", flush=True)
    draw = random.Random(seed)
    waiting, number = [], 0
    last = {a: 0.0, b: 0.0}
    while True:
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            _, _, to, packet = heapq.heappop(waiting)
            try:
                os.write(to, packet)
            except OSError:
                pass
        pause = max(0.0, waiting[0][0] - now) if waiting else 1.0
        for source in select.select([a, b], [], [], pause)[0]:
            packet = os.read(source, 65536)
            to, delay = (a, out_s) if source == b else (b, back_s)
            if draw.random() < loss:
                continue
            due = max(time.monotonic() + delay + draw.uniform(0, jitter_s), last[to])
            last[to], number = due, number + 1
            heapq.heappush(waiting, (due, number, to, packet))


main()
