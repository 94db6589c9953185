// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#include "CVersion.h"

#ifndef DEVICE_RELAY_COMMIT
#define DEVICE_RELAY_COMMIT ""
#endif

const char *cversion_commit(void) { return DEVICE_RELAY_COMMIT; }
