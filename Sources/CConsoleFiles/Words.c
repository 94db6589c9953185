// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#include "CConsoleFiles.h"

#pragma clang diagnostic ignored "-Wc23-extensions"

static const unsigned char de[] = {
#embed "../ConsoleFiles/Web/i18n/pages/de.json"
};
static const unsigned char en[] = {
#embed "../ConsoleFiles/Web/i18n/pages/en.json"
};
static const unsigned char fr[] = {
#embed "../ConsoleFiles/Web/i18n/pages/fr.json"
};
static const unsigned char zh[] = {
#embed "../ConsoleFiles/Web/i18n/pages/zh.json"
};

static const CConsoleFile files[] = {
    {"i18n/pages/de.json", de, sizeof de},
    {"i18n/pages/en.json", en, sizeof en},
    {"i18n/pages/fr.json", fr, sizeof fr},
    {"i18n/pages/zh.json", zh, sizeof zh},
};

CConsoleFile cconsole_words(size_t index) {
    return index < sizeof files / sizeof *files ? files[index] : (CConsoleFile){0, 0, 0};
}
