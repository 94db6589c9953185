// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

// Functions that Swift's modules of the C libraries on Linux do not have.

#ifndef CLINUX_H
#define CLINUX_H

#ifdef __linux__
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

/// The number of processors that this process may run on; 0 if it is unknown.
int clinux_processor_count(void);
/// Sets a short time slice for the calling thread, so that the scheduler runs it sooner (Linux 6.12 and newer; no effect before).
void clinux_set_short_time_slice(void);
/// Sets the name of the calling thread; at most 15 bytes.
void clinux_name_thread(const char *name);
/// Waits until all files of the file system of an open file are on the disk; 0, or -1 with `errno`.
int clinux_sync_file_system(int descriptor);
/// Begins to write a part of a file to the disk, without a wait. It is a hint, and an error has no effect.
void clinux_start_flushing(int descriptor, int64_t offset, int64_t bytes);
/// A non-blocking descriptor that can be read when interfaces or addresses of this machine change; -1 with `errno`.
int clinux_watch_interfaces(void);
/// A non-blocking descriptor that can be read, with an error, when the clock is set or the machine has slept; -1 with `errno`.
int clinux_watch_clock(void);
/// A non-blocking descriptor that can be read when a file is written, or loses its name; -1 with `errno`.
int clinux_watch_file(const char *path);
/// Returns the allocator's free memory to the system.
void clinux_trim_heap(void);
#endif

#endif
