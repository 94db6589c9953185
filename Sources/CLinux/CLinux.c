// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#ifdef __linux__
#define _GNU_SOURCE
#include "CLinux.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sched.h>
#include <stdint.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

int clinux_processor_count(void) {
    // The maximum that Linux supports (CONFIG_NR_CPUS).
    union {
        cpu_set_t set;
        unsigned char bytes[1024];
    } processors = {{{0}}};
    if (sched_getaffinity(0, sizeof processors, &processors.set)) return 0;
    return CPU_COUNT_S(sizeof processors, &processors.set);
}

void clinux_set_short_time_slice(void) {
    // The first version of `struct sched_attr` (SCHED_ATTR_SIZE_VER0). Not every C library has the struct or the call.
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    } attributes = {.size = 48, .policy = SCHED_OTHER};
    // In nanoseconds; the minimum that Linux accepts.
    attributes.runtime = 100 * 1000;
    syscall(SYS_sched_setattr, 0, &attributes, 0);
}

void clinux_name_thread(const char *name) { prctl(PR_SET_NAME, name); }

int clinux_sync_file_system(int descriptor) { return syncfs(descriptor); }

void clinux_start_flushing(int descriptor, int64_t offset, int64_t bytes) {
    sync_file_range(descriptor, offset, bytes, SYNC_FILE_RANGE_WRITE);
}

/// Closes a descriptor that is of no use, and keeps `errno`.
static int give_up(int descriptor) {
    int problem = errno;
    close(descriptor);
    errno = problem;
    return -1;
}

int clinux_watch_interfaces(void) {
    int descriptor = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (descriptor < 0) return -1;
    struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR};
    return bind(descriptor, (struct sockaddr *)&address, sizeof address) ? give_up(descriptor) : descriptor;
}

int clinux_watch_clock(void) {
    int descriptor = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    if (descriptor < 0) return -1;
    // In 2100. What matters is that it is cancelled when the clock is set.
    struct itimerspec late = {.it_value = {.tv_sec = 4102444800}};
    int flags = TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET;
    return timerfd_settime(descriptor, flags, &late, NULL) ? give_up(descriptor) : descriptor;
}

int clinux_watch_file(const char *path) {
    int descriptor = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (descriptor < 0) return -1;
    return inotify_add_watch(descriptor, path, IN_MODIFY | IN_DELETE_SELF | IN_MOVE_SELF) < 0 ? give_up(descriptor) : descriptor;
}

void clinux_trim_heap(void) {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}
#endif
