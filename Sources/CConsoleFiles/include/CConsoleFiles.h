// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#ifndef C_CONSOLE_FILES_H
#define C_CONSOLE_FILES_H

#include <stddef.h>

/// A file of `Sources/ConsoleFiles/Web`, as it was when the program was built.
typedef struct {
    /// Such as `views/devices.js`.
    const char *path;
    const unsigned char *bytes;
    size_t count;
} CConsoleFile;

CConsoleFile cconsole_style(void);
CConsoleFile cconsole_mark(void);
CConsoleFile cconsole_icons(void);
CConsoleFile cconsole_times(void);
CConsoleFile cconsole_passkey(void);

/// The words of all other pages, a file for each language. `path` is null at the end.
CConsoleFile cconsole_words(size_t index);

/// The files of the console alone. `path` is null at the end.
CConsoleFile cconsole_file(size_t index);

#endif
