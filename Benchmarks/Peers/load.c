// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

// Pairs of a requester and a responder that exchange messages through a relay's tunnels, through NATS or through MQTT, all in one event
// loop. With `splice` they use plain connections without a tunnel preface. Only the encoding of messages differs; the loop, the buffers
// and the clock are the same.
//
// load tunnel|splice|nats|mqtt PORT [--pairs N] [--inflight N] [--size BYTES] [--reply BYTES] [--seconds S] [--server PID]
//
// For `tunnel`, standard input has a line for each pair, with three hexadecimal values: tunnel id, token of one side, token of the other.
// Prints one JSON object. Messages are counted at the server: a request and its reply are two.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum protocol { TUNNEL, NATS, MQTT };

struct buffer {
    char *bytes;
    size_t start, end, capacity;
};

struct connection {
    int fd;
    int pair;
    bool requester, dirty, waits;
    struct buffer in, out;
};

struct pair {
    struct connection ends[2];  // requester, responder
    uint64_t *sent;             // the send time of each request in flight; a ring, since responses keep the order
    uint64_t next;
};

static enum protocol protocol;
static bool is_bare;
static int port, pair_count = 1, in_flight = 1, server;
static size_t request_size = 128, reply_size = 0;
static double seconds = 2;
static char *payload;
static struct pair *pairs;
static struct connection **dirty;
static size_t dirty_count;
static int loop;

static bool measuring;
static uint64_t answered;
static uint32_t *samples;
static size_t sample_count, sample_capacity;

static void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("load: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

// CPU seconds that a process has used, all threads together.
static double cpu_of(int pid) {
    char path[64], line[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file || !fgets(line, sizeof line, file)) fail("process %d is gone", pid);
    fclose(file);
    unsigned long user, kernel;
    char *after = strrchr(line, ')');
    if (!after || sscanf(after + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &kernel) != 2) fail("%s is odd", path);
    return (double)(user + kernel) / (double)sysconf(_SC_CLK_TCK);
}

// MARK: Buffers

static void reserve(struct buffer *buffer, size_t count) {
    if (buffer->start == buffer->end) buffer->start = buffer->end = 0;
    if (buffer->capacity - buffer->end >= count) return;
    memmove(buffer->bytes, buffer->bytes + buffer->start, buffer->end - buffer->start);
    buffer->end -= buffer->start;
    buffer->start = 0;
    if (buffer->capacity - buffer->end >= count) return;
    buffer->capacity = (buffer->end + count) * 2;
    buffer->bytes = realloc(buffer->bytes, buffer->capacity);
    if (!buffer->bytes) fail("out of memory");
}

static void append(struct buffer *buffer, const void *bytes, size_t count) {
    reserve(buffer, count);
    memcpy(buffer->bytes + buffer->end, bytes, count);
    buffer->end += count;
}

static void append_text(struct buffer *buffer, const char *format, ...) {
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    int count = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    append(buffer, text, (size_t)count);
}

// MARK: Encoding

static void append_mqtt_header(struct buffer *out, unsigned char type, size_t length) {
    unsigned char header[5] = {type};
    size_t count = 1;
    do {
        unsigned char digit = length % 128;
        length /= 128;
        header[count++] = length ? digit | 128 : digit;
    } while (length);
    append(out, header, count);
}

static void append_mqtt_text(struct buffer *out, const char *text, size_t count) {
    unsigned char length[2] = {(unsigned char)(count >> 8), (unsigned char)count};
    append(out, length, 2);
    append(out, text, count);
}

static void publish_mqtt(struct buffer *out, const char *topic, size_t count) {
    size_t length = strlen(topic);
    append_mqtt_header(out, 0x30, 2 + length + count);
    append_mqtt_text(out, topic, length);
    append(out, payload, count);
}

static void mark(struct connection *connection) {
    if (connection->dirty) return;
    connection->dirty = true;
    dirty[dirty_count++] = connection;
}

static void request(struct pair *pair) {
    struct connection *connection = &pair->ends[0];
    char topic[64];
    switch (protocol) {
    case TUNNEL: append(&connection->out, payload, request_size); break;
    case NATS:
        append_text(&connection->out, "PUB q.%d _INBOX.%d.%llu %zu\r\n", connection->pair, connection->pair, (unsigned long long)pair->next, request_size);
        append(&connection->out, payload, request_size);
        append(&connection->out, "\r\n", 2);
        break;
    case MQTT:
        snprintf(topic, sizeof topic, "q/%d", connection->pair);
        publish_mqtt(&connection->out, topic, request_size);
        break;
    }
    pair->sent[pair->next % (size_t)in_flight] = now();
    pair->next++;
    mark(connection);
}

static void reply(struct connection *connection, const char *subject, size_t count) {
    char topic[64];
    switch (protocol) {
    case TUNNEL: append(&connection->out, payload, reply_size); break;
    case NATS:
        append(&connection->out, "PUB ", 4);
        append(&connection->out, subject, count);
        append_text(&connection->out, " %zu\r\n", reply_size);
        append(&connection->out, payload, reply_size);
        append(&connection->out, "\r\n", 2);
        break;
    case MQTT:
        snprintf(topic, sizeof topic, "r/%d", connection->pair);
        publish_mqtt(&connection->out, topic, reply_size);
        break;
    }
    mark(connection);
}

static void answer_came(struct pair *pair) {
    uint64_t sent = pair->sent[pair->next % (size_t)in_flight];
    if (measuring) {
        answered++;
        if (sample_count < sample_capacity) {
            uint64_t took = now() - sent;
            samples[sample_count++] = took > UINT32_MAX ? UINT32_MAX : (uint32_t)took;
        }
    }
    request(pair);
}

static void message_came(struct connection *connection, const char *subject, size_t count) {
    if (connection->requester) answer_came(&pairs[connection->pair]);
    else reply(connection, subject, count);
}

// MARK: Decoding

// Returns whether a complete message was read.
static bool take_tunnel(struct connection *connection) {
    struct buffer *in = &connection->in;
    size_t size = connection->requester ? reply_size : request_size;
    if (in->end - in->start < size) return false;
    in->start += size;
    message_came(connection, NULL, 0);
    return true;
}

static bool take_nats(struct connection *connection) {
    struct buffer *in = &connection->in;
    char *line = in->bytes + in->start;
    char *end = memchr(line, '\n', in->end - in->start);
    if (!end) return false;
    size_t head = (size_t)(end - line) + 1;
    if (strncmp(line, "MSG ", 4) == 0) {
        // MSG subject sid [reply] bytes
        char *words[5];
        size_t lengths[5];
        int count = 0;
        for (char *at = line + 4; at < end && count < 5;) {
            char *stop = at;
            while (stop < end && *stop != ' ' && *stop != '\r') stop++;
            words[count] = at;
            lengths[count++] = (size_t)(stop - at);
            at = stop + 1;
        }
        if (count < 3) fail("nats sent an odd message");
        size_t size = strtoul(words[count - 1], NULL, 10);
        if (in->end - in->start < head + size + 2) {
            return false;
        }
        in->start += head + size + 2;
        message_came(connection, words[2], lengths[2]);
        return true;
    }
    if (strncmp(line, "PING", 4) == 0) {
        append(&connection->out, "PONG\r\n", 6);
        mark(connection);
    } else if (strncmp(line, "-ERR", 4) == 0) {
        fail("nats said %.*s", (int)head, line);
    }
    in->start += head;
    return true;
}

static bool take_mqtt(struct connection *connection) {
    struct buffer *in = &connection->in;
    unsigned char *bytes = (unsigned char *)in->bytes + in->start;
    size_t available = in->end - in->start, length = 0, at = 1;
    for (unsigned shift = 0;; shift += 7) {
        if (at >= available) return false;
        length |= (size_t)(bytes[at] & 127) << shift;
        if (!(bytes[at++] & 128)) break;
    }
    if (available < at + length) return false;
    in->start += at + length;
    if ((bytes[0] & 0xF0) == 0x30) message_came(connection, NULL, 0);
    return true;
}

static bool take(struct connection *connection) {
    switch (protocol) {
    case TUNNEL: return take_tunnel(connection);
    case NATS: return take_nats(connection);
    default: return take_mqtt(connection);
    }
}

// MARK: Connecting

static void write_all(int fd, const char *bytes, size_t count) {
    while (count) {
        ssize_t wrote = write(fd, bytes, count);
        if (wrote <= 0) fail("cannot write: %s", strerror(errno));
        bytes += wrote;
        count -= (size_t)wrote;
    }
}

static void read_exactly(int fd, void *bytes, size_t count) {
    for (char *at = bytes; count;) {
        ssize_t got = read(fd, at, count);
        if (got <= 0) fail("the server closed: %s", got ? strerror(errno) : "end of stream");
        at += got;
        count -= (size_t)got;
    }
}

static void read_line(int fd, char *line, size_t capacity) {
    for (size_t count = 0; count + 1 < capacity;) {
        read_exactly(fd, line + count, 1);
        if (line[count++] == '\n') {
            line[count] = 0;
            return;
        }
    }
    fail("a line is too long");
}

static int dial(void) {
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address)) fail("cannot connect to port %d: %s", port, strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

static void hex(const char *text, unsigned char *bytes, size_t count) {
    for (size_t index = 0; index < count; index++) {
        unsigned value;
        if (sscanf(text + 2 * index, "%2x", &value) != 1) fail("standard input has a bad line");
        bytes[index] = (unsigned char)value;
    }
}

static void enter_tunnel(struct pair *pair) {
    char id[64], tokens[2][128];
    if (scanf("%63s %127s %127s", id, tokens[0], tokens[1]) != 3) fail("standard input has too few tunnels");
    for (int side = 0; side < 2; side++) {
        unsigned char preface[4 + 16 + 32] = "DRT1";
        hex(id, preface + 4, 16);
        hex(tokens[side], preface + 20, 32);
        pair->ends[side].fd = dial();
        write_all(pair->ends[side].fd, (char *)preface, sizeof preface);
    }
    for (int side = 0; side < 2; side++) {
        unsigned char status;
        read_exactly(pair->ends[side].fd, &status, 1);
        if (status) fail("the relay refused a tunnel with status %d", status);
    }
}

static void enter_nats(struct connection *connection) {
    char line[65536];
    connection->fd = dial();
    read_line(connection->fd, line, sizeof line);
    int count = snprintf(
        line, sizeof line, "CONNECT {\"verbose\":false,\"pedantic\":false}\r\nSUB %s%d%s 1\r\nPING\r\n", connection->requester ? "_INBOX." : "q.",
        connection->pair, connection->requester ? ".*" : ""
    );
    write_all(connection->fd, line, (size_t)count);
    do read_line(connection->fd, line, sizeof line);
    while (strncmp(line, "PONG", 4));
}

static void enter_mqtt(struct connection *connection) {
    struct buffer out = {0};
    char text[64];
    unsigned char answer[5];
    connection->fd = dial();
    int count = snprintf(text, sizeof text, "%c%d", connection->requester ? 'a' : 'b', connection->pair);
    append_mqtt_header(&out, 0x10, 10 + 2 + (size_t)count);
    append(&out, "\0\4MQTT\4\2\0\0", 10);
    append_mqtt_text(&out, text, (size_t)count);
    write_all(connection->fd, out.bytes + out.start, out.end - out.start);
    read_exactly(connection->fd, answer, 4);
    if (answer[0] != 0x20 || answer[3]) fail("mqtt refused with %d", answer[3]);
    out.start = out.end = 0;
    count = snprintf(text, sizeof text, "%c/%d", connection->requester ? 'r' : 'q', connection->pair);
    append_mqtt_header(&out, 0x82, 2 + 2 + (size_t)count + 1);
    append(&out, "\0\1", 2);
    append_mqtt_text(&out, text, (size_t)count);
    append(&out, "\0", 1);
    write_all(connection->fd, out.bytes + out.start, out.end - out.start);
    read_exactly(connection->fd, answer, 5);
    if (answer[0] != 0x90) fail("mqtt answered a subscription with %d", answer[0]);
    free(out.bytes);
}

static void enter(struct pair *pair) {
    if (is_bare) {
        for (int side = 0; side < 2; side++) pair->ends[side].fd = dial();
        return;
    }
    if (protocol == TUNNEL) {
        enter_tunnel(pair);
        return;
    }
    // The responder first, so that it listens before the first request.
    for (int side = 1; side >= 0; side--) {
        if (protocol == NATS) enter_nats(&pair->ends[side]);
        else enter_mqtt(&pair->ends[side]);
    }
}

// MARK: The loop

static void watch(struct connection *connection, int operation) {
    struct epoll_event event = {.events = EPOLLIN | (connection->waits ? EPOLLOUT : 0u), .data.ptr = connection};
    if (epoll_ctl(loop, operation, connection->fd, &event)) fail("epoll: %s", strerror(errno));
}

static void flush(struct connection *connection) {
    struct buffer *out = &connection->out;
    connection->dirty = false;
    while (out->start < out->end) {
        ssize_t wrote = write(connection->fd, out->bytes + out->start, out->end - out->start);
        if (wrote < 0 && errno == EAGAIN) break;
        if (wrote <= 0) fail("cannot write: %s", strerror(errno));
        out->start += (size_t)wrote;
    }
    bool waits = out->start < out->end;
    if (waits != connection->waits) {
        connection->waits = waits;
        watch(connection, EPOLL_CTL_MOD);
    }
}

static void receive(struct connection *connection) {
    struct buffer *in = &connection->in;
    reserve(in, 128 * 1024);
    ssize_t got = read(connection->fd, in->bytes + in->end, in->capacity - in->end);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) fail("the server closed: %s", got ? strerror(errno) : "end of stream");
    in->end += (size_t)got;
    while (in->start < in->end && take(connection)) {}
}

static void run_until(uint64_t end) {
    struct epoll_event events[1024];
    while (now() < end) {
        int count = epoll_wait(loop, events, 1024, 1000);
        if (count == 0) fail("nothing came for a second");
        for (int index = 0; index < count; index++) {
            struct connection *connection = events[index].data.ptr;
            if (events[index].events & ~(uint32_t)EPOLLOUT) receive(connection);
            if (events[index].events & EPOLLOUT) mark(connection);
        }
        // Sends everything that was written in this iteration.
        for (size_t index = 0; index < dirty_count; index++) flush(dirty[index]);
        dirty_count = 0;
    }
}

static int compare(const void *left, const void *right) {
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return a < b ? -1 : a > b;
}

static double percentile(double part) {
    return sample_count ? samples[(size_t)((double)(sample_count - 1) * part)] / 1000.0 : 0;
}

int main(int count, char **words) {
    if (count < 3) fail("usage: load tunnel|splice|nats|mqtt PORT [--pairs N] [--inflight N] [--size BYTES] [--reply BYTES] [--seconds S] [--server PID]");
    is_bare = !strcmp(words[1], "splice");
    if (is_bare || !strcmp(words[1], "tunnel")) protocol = TUNNEL;
    else if (!strcmp(words[1], "nats")) protocol = NATS;
    else if (!strcmp(words[1], "mqtt")) protocol = MQTT;
    else fail("%s is not tunnel, splice, nats or mqtt", words[1]);
    port = atoi(words[2]);
    for (int index = 3; index + 1 < count; index += 2) {
        const char *name = words[index], *value = words[index + 1];
        if (!strcmp(name, "--pairs")) pair_count = atoi(value);
        else if (!strcmp(name, "--inflight")) in_flight = atoi(value);
        else if (!strcmp(name, "--size")) request_size = strtoul(value, NULL, 10);
        else if (!strcmp(name, "--reply")) reply_size = strtoul(value, NULL, 10);
        else if (!strcmp(name, "--seconds")) seconds = atof(value);
        else if (!strcmp(name, "--server")) server = atoi(value);
        else fail("%s is not known", name);
    }
    if (!reply_size) reply_size = request_size;
    if (pair_count < 1 || in_flight < 1 || request_size < 1 || seconds <= 0) fail("numbers must be at least 1");
    struct rlimit files = {(rlim_t)pair_count * 2 + 64, (rlim_t)pair_count * 2 + 64};
    setrlimit(RLIMIT_NOFILE, &files);
    payload = malloc(request_size > reply_size ? request_size : reply_size);
    memset(payload, 'x', request_size > reply_size ? request_size : reply_size);
    pairs = calloc((size_t)pair_count, sizeof *pairs);
    dirty = calloc((size_t)pair_count * 2, sizeof *dirty);
    sample_capacity = 4 * 1024 * 1024;
    samples = malloc(sample_capacity * sizeof *samples);
    loop = epoll_create1(0);
    for (int index = 0; index < pair_count; index++) {
        struct pair *pair = &pairs[index];
        pair->sent = calloc((size_t)in_flight, sizeof *pair->sent);
        for (int side = 0; side < 2; side++) {
            pair->ends[side].pair = index;
            pair->ends[side].requester = side == 0;
        }
        enter(pair);
        for (int side = 0; side < 2; side++) {
            fcntl(pair->ends[side].fd, F_SETFL, O_NONBLOCK);
            watch(&pair->ends[side], EPOLL_CTL_ADD);
        }
    }
    for (int index = 0; index < pair_count; index++) {
        for (int request_index = 0; request_index < in_flight; request_index++) request(&pairs[index]);
    }
    for (size_t index = 0; index < dirty_count; index++) flush(dirty[index]);
    dirty_count = 0;
    run_until(now() + (uint64_t)(seconds * 0.2 * 1e9));
    measuring = true;
    double cpu = server ? cpu_of(server) : 0;
    uint64_t begin = now();
    run_until(begin + (uint64_t)(seconds * 1e9));
    double took = (double)(now() - begin) / 1e9;
    cpu = server ? cpu_of(server) - cpu : 0;
    qsort(samples, sample_count, sizeof *samples, compare);
    double messages = 2.0 * (double)answered;
    printf(
        "{\"messagesPerSecond\": %.0f, \"megabytesPerSecond\": %.1f, \"p50Microseconds\": %.1f, \"p99Microseconds\": %.1f, "
        "\"cpuSecondsPerMillionMessages\": %.3f, \"serverLoad\": %.2f}\n",
        messages / took, (double)answered * (double)request_size / took / 1e6, percentile(0.5), percentile(0.99),
        messages > 0 ? cpu / messages * 1e6 : 0, cpu / took
    );
    return 0;
}
