// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#ifndef CVERSION_H
#define CVERSION_H

/// The commit that the program was built from; empty for a build that was not told.
const char *cversion_commit(void);

#endif
