// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

// The cost of a relay's system calls alone: copies bytes between each two accepted connections, with one epoll_wait, one recv and one
// send per event, and does nothing else.
//
// splice PORT

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BLOCK = 256 * 1024 };

struct side {
    int fd;
    uint32_t interest;
    struct side *other;
    char *rest;  // read here, and not yet written to the other
    size_t start, end;
};

static int loop;
static char block[BLOCK];
static struct side *alone;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void watch(struct side *side, int operation) {
    uint32_t interest = side->other ? 0 : EPOLLIN;
    if (side->other && side->start == side->end) interest |= EPOLLIN;
    if (side->other && side->other->start < side->other->end) interest |= EPOLLOUT;
    if (operation == EPOLL_CTL_MOD && interest == side->interest) return;
    side->interest = interest;
    struct epoll_event event = {.events = interest, .data.ptr = side};
    if (epoll_ctl(loop, operation, side->fd, &event)) fail("epoll_ctl");
}

static void drop(struct side *side) {
    close(side->fd);
    side->fd = -1;
}

// Returns how many bytes the other side took; -1 if its connection is closed.
static ssize_t offer(struct side *to, const char *bytes, size_t count) {
    ssize_t sent = send(to->fd, bytes, count, MSG_DONTWAIT | MSG_NOSIGNAL);
    return sent < 0 && errno == EAGAIN ? 0 : sent;
}

// Returns whether the pair continues.
static bool happened(struct side *side, uint32_t events) {
    struct side *other = side->other;
    if ((events & EPOLLOUT) && other->start < other->end) {
        ssize_t sent = offer(side, other->rest + other->start, other->end - other->start);
        if (sent < 0) return false;
        other->start += (size_t)sent;
        if (other->start == other->end) {
            watch(side, EPOLL_CTL_MOD);
            watch(other, EPOLL_CTL_MOD);
        }
    }
    if (!(events & ~(uint32_t)EPOLLOUT)) return true;
    if (side->start < side->end) return !(events & (EPOLLERR | EPOLLHUP));
    ssize_t got = recv(side->fd, block, sizeof block, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) return true;
    if (got <= 0) return false;
    ssize_t sent = offer(other, block, (size_t)got);
    if (sent < 0) return false;
    if (sent == got) return true;
    if (!side->rest && !(side->rest = malloc(BLOCK))) fail("malloc");
    side->start = 0;
    side->end = (size_t)(got - sent);
    memcpy(side->rest, block + sent, side->end);
    watch(side, EPOLL_CTL_MOD);
    watch(other, EPOLL_CTL_MOD);
    return true;
}

static void take(int listener) {
    int fd = accept(listener, NULL, NULL), on = 1;
    if (fd < 0) fail("accept");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct side *side = calloc(1, sizeof *side);
    if (!side) fail("calloc");
    side->fd = fd;
    if (alone) {
        side->other = alone;
        alone->other = side;
        watch(alone, EPOLL_CTL_MOD);
        alone = NULL;
    } else {
        alone = side;
    }
    watch(side, EPOLL_CTL_ADD);
}

int main(int count, char **words) {
    if (count != 2) {
        fputs("usage: splice PORT\n", stderr);
        return 1;
    }
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(words[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 4096)) fail("listen");
    loop = epoll_create1(0);
    struct epoll_event events[256] = {{.events = EPOLLIN}};
    if (loop < 0 || epoll_ctl(loop, EPOLL_CTL_ADD, listener, &events[0])) fail("epoll");
    for (;;) {
        int ready = epoll_wait(loop, events, 256, -1);
        for (int index = 0; index < ready; index++) {
            struct side *side = events[index].data.ptr;
            if (!side) {
                take(listener);
            } else if (side->fd < 0) {
                continue;  // the other side ended in this iteration
            } else if (!side->other) {
                // A single connection that closes only tested whether this program runs.
                drop(side);
                alone = NULL;
            } else if (!happened(side, events[index].events)) {
                // The memory of a pair is not freed: a run has only a few thousand.
                drop(side->other);
                drop(side);
            }
        }
    }
}
