// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

// What Swift's modules of the C libraries on Linux leave out.

#ifndef CLINUX_H
#define CLINUX_H

#ifdef __linux__
#include <sys/epoll.h>
#include <sys/eventfd.h>

/// How many processors this process may run on; 0 if the system does not say.
int clinux_processor_count(void);
/// Has the scheduler give the calling thread its turn soon, in exchange for a short one (Linux 6.12 and newer; nothing before).
void clinux_set_short_time_slice(void);
/// What the calling thread is called in lists of threads: at most 15 bytes.
void clinux_name_thread(const char *name);
/// Gives the system what the allocator keeps free.
void clinux_trim_heap(void);
#endif

#endif
