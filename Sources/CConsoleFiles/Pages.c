// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#include "CConsoleFiles.h"

// `#embed` is standard in C23, and an extension before it.
#pragma clang diagnostic ignored "-Wc23-extensions"

static const unsigned char style[] = {
#embed "../ConsoleFiles/Web/style.css"
};
static const unsigned char mark[] = {
#embed "../ConsoleFiles/Web/mark.svg"
};
static const unsigned char icons[] = {
#embed "../ConsoleFiles/Web/icons.svg"
};
static const unsigned char times[] = {
#embed "../ConsoleFiles/Web/times.js"
};
static const unsigned char passkey[] = {
#embed "../ConsoleFiles/Web/passkey.js"
};

CConsoleFile cconsole_style(void) { return (CConsoleFile){"style.css", style, sizeof style}; }
CConsoleFile cconsole_mark(void) { return (CConsoleFile){"mark.svg", mark, sizeof mark}; }
CConsoleFile cconsole_icons(void) { return (CConsoleFile){"icons.svg", icons, sizeof icons}; }
CConsoleFile cconsole_times(void) { return (CConsoleFile){"times.js", times, sizeof times}; }
CConsoleFile cconsole_passkey(void) { return (CConsoleFile){"passkey.js", passkey, sizeof passkey}; }
