// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#include "CProgramTexts.h"

// `#embed` is standard in C23, and an extension before it.
#pragma clang diagnostic ignored "-Wc23-extensions"

static const unsigned char de[] = {
#embed "../ProgramTexts/Texts/de.json"
};
static const unsigned char fr[] = {
#embed "../ProgramTexts/Texts/fr.json"
};
static const unsigned char zh[] = {
#embed "../ProgramTexts/Texts/zh.json"
};

CProgramTexts cprogram_texts_de(void) { return (CProgramTexts){de, sizeof de}; }
CProgramTexts cprogram_texts_fr(void) { return (CProgramTexts){fr, sizeof fr}; }
CProgramTexts cprogram_texts_zh(void) { return (CProgramTexts){zh, sizeof zh}; }
