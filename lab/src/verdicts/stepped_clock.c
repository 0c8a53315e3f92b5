/* Steps the wall clock of one process, for `cargo lab verdicts --step-clock`.
 *
 * Preloaded into the client. TOKOLAB_CLOCK_STEP has three numbers in milliseconds: when the clock is set
 * forward (since the start of the process), for how long, and by how much. The process then sees what a
 * real step would show it: another wall clock, kernel timestamps of packets by that clock, and timers that
 * are cancelled when the clock is set. The clock of the machine is not touched. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#ifndef SCM_TIMESTAMPING
#define SCM_TIMESTAMPING 37
#endif
#define SECOND 1000000000LL
#define WATCHED 1024

static int64_t begin, step_from, step_until, step;
/* Descriptors of timers that a step cancels. */
static char watched[WATCHED];

static int64_t reading(clockid_t id) {
    struct timespec now;
    syscall(SYS_clock_gettime, id, &now);
    return now.tv_sec * SECOND + now.tv_nsec;
}

__attribute__((constructor)) static void prepare(void) {
    double at = 0, length = 0, by = 0;
    const char *text = getenv("TOKOLAB_CLOCK_STEP");
    if (text) sscanf(text, "%lf %lf %lf", &at, &length, &by);
    begin = reading(CLOCK_MONOTONIC);
    step_from = begin + (int64_t)(at * 1e6);
    step_until = step_from + (int64_t)(length * 1e6);
    step = (int64_t)(by * 1e6);
}

/* What the wall clock of the process was ahead by, at a monotonic time. */
static int64_t ahead(int64_t at) { return at >= step_from && at < step_until ? step : 0; }

static void add(struct timespec *time, int64_t by) {
    int64_t all = time->tv_sec * SECOND + time->tv_nsec + by;
    time->tv_sec = all / SECOND;
    time->tv_nsec = all % SECOND;
}

int clock_gettime(clockid_t id, struct timespec *now) {
    int result = (int)syscall(SYS_clock_gettime, id, now);
    if (result == 0 && id == CLOCK_REALTIME) add(now, ahead(reading(CLOCK_MONOTONIC)));
    return result;
}

/* A timer that is cancelled by a step ends at the next step instead. */
int timerfd_settime(int timer, int flags, const struct itimerspec *next, struct itimerspec *old) {
    struct itimerspec at = *next;
    if ((flags & TFD_TIMER_CANCEL_ON_SET) && timer >= 0 && timer < WATCHED) {
        int64_t now = reading(CLOCK_MONOTONIC);
        int64_t event = now < step_from ? step_from : step_until;
        if (now < event) {
            watched[timer] = 1;
            at.it_value.tv_sec = at.it_value.tv_nsec = 0;
            add(&at.it_value, reading(CLOCK_REALTIME) + event - now);
            flags &= ~TFD_TIMER_CANCEL_ON_SET;
        }
    }
    return (int)syscall(SYS_timerfd_settime, timer, flags, &at, old);
}

ssize_t read(int from, void *bytes, size_t room) {
    ssize_t count = syscall(SYS_read, from, bytes, room);
    if (count == 8 && from >= 0 && from < WATCHED && watched[from]) {
        watched[from] = 0;
        errno = ECANCELED;
        return -1;
    }
    return count;
}

ssize_t recvmsg(int from, struct msghdr *message, int flags) {
    ssize_t count = syscall(SYS_recvmsg, from, message, flags);
    if (count < 0) return count;
    int64_t offset = reading(CLOCK_REALTIME) - reading(CLOCK_MONOTONIC);
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_TIMESTAMPING) continue;
        struct timespec *stamp = (struct timespec *)CMSG_DATA(part);
        int64_t at = stamp->tv_sec * SECOND + stamp->tv_nsec;
        if (at > 0) add(stamp, ahead(at - offset));
    }
    return count;
}
