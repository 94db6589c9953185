// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#ifndef CVERSION_H
#define CVERSION_H

/// The commit of the build; empty if the build did not set it.
const char *cversion_commit(void);

#endif
