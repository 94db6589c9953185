// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

// The system's DNS resolver, whose state type has functions that are macros, which Swift does not import.

#ifndef CRESOLVER_H
#define CRESOLVER_H

/// Asks the system's name servers for the TXT records of a name.
/// \returns the length of the answer; -1 if there is none.
int cresolver_query_txt(const char *name, unsigned char *answer, int size);

#endif
