// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#ifndef C_PROGRAM_TEXTS_H
#define C_PROGRAM_TEXTS_H

#include <stddef.h>

/// A file of `Sources/ProgramTexts/Texts`, as it was when the program was built.
typedef struct {
    const unsigned char *bytes;
    size_t count;
} CProgramTexts;

CProgramTexts cprogram_texts_de(void);
CProgramTexts cprogram_texts_fr(void);
CProgramTexts cprogram_texts_zh(void);

#endif
