// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#include "CConsoleFiles.h"

#pragma clang diagnostic ignored "-Wc23-extensions"

static const unsigned char index_html[] = {
#embed "../ConsoleFiles/Web/index.html"
};
static const unsigned char app_js[] = {
#embed "../ConsoleFiles/Web/app.js"
};
static const unsigned char dom_js[] = {
#embed "../ConsoleFiles/Web/dom.js"
};
static const unsigned char question_js[] = {
#embed "../ConsoleFiles/Web/question.js"
};
static const unsigned char router_js[] = {
#embed "../ConsoleFiles/Web/router.js"
};
static const unsigned char states_js[] = {
#embed "../ConsoleFiles/Web/states.js"
};
static const unsigned char text_js[] = {
#embed "../ConsoleFiles/Web/text.js"
};
static const unsigned char i18n_de_json[] = {
#embed "../ConsoleFiles/Web/i18n/de.json"
};
static const unsigned char i18n_en_json[] = {
#embed "../ConsoleFiles/Web/i18n/en.json"
};
static const unsigned char i18n_fr_json[] = {
#embed "../ConsoleFiles/Web/i18n/fr.json"
};
static const unsigned char i18n_zh_json[] = {
#embed "../ConsoleFiles/Web/i18n/zh.json"
};
static const unsigned char model_events_js[] = {
#embed "../ConsoleFiles/Web/model/events.js"
};
static const unsigned char model_json_js[] = {
#embed "../ConsoleFiles/Web/model/json.js"
};
static const unsigned char model_local_js[] = {
#embed "../ConsoleFiles/Web/model/local.js"
};
static const unsigned char model_tabs_js[] = {
#embed "../ConsoleFiles/Web/model/tabs.js"
};
static const unsigned char model_words_js[] = {
#embed "../ConsoleFiles/Web/model/words.js"
};
static const unsigned char vendor_qrcode_js[] = {
#embed "../ConsoleFiles/Web/vendor/qrcode.js"
};
static const unsigned char views_access_js[] = {
#embed "../ConsoleFiles/Web/views/access.js"
};
static const unsigned char views_activity_js[] = {
#embed "../ConsoleFiles/Web/views/activity.js"
};
static const unsigned char views_add_js[] = {
#embed "../ConsoleFiles/Web/views/add.js"
};
static const unsigned char views_call_js[] = {
#embed "../ConsoleFiles/Web/views/call.js"
};
static const unsigned char views_device_js[] = {
#embed "../ConsoleFiles/Web/views/device.js"
};
static const unsigned char views_devices_js[] = {
#embed "../ConsoleFiles/Web/views/devices.js"
};
static const unsigned char views_diagnosis_js[] = {
#embed "../ConsoleFiles/Web/views/diagnosis.js"
};
static const unsigned char views_files_js[] = {
#embed "../ConsoleFiles/Web/views/files.js"
};
static const unsigned char views_history_js[] = {
#embed "../ConsoleFiles/Web/views/history.js"
};
static const unsigned char views_open_js[] = {
#embed "../ConsoleFiles/Web/views/open.js"
};
static const unsigned char views_requests_js[] = {
#embed "../ConsoleFiles/Web/views/requests.js"
};

#define FILE(path, bytes) {path, bytes, sizeof bytes}

static const CConsoleFile files[] = {
    FILE("index.html", index_html),
    FILE("app.js", app_js),
    FILE("dom.js", dom_js),
    FILE("question.js", question_js),
    FILE("router.js", router_js),
    FILE("states.js", states_js),
    FILE("text.js", text_js),
    FILE("i18n/de.json", i18n_de_json),
    FILE("i18n/en.json", i18n_en_json),
    FILE("i18n/fr.json", i18n_fr_json),
    FILE("i18n/zh.json", i18n_zh_json),
    FILE("model/events.js", model_events_js),
    FILE("model/json.js", model_json_js),
    FILE("model/local.js", model_local_js),
    FILE("model/tabs.js", model_tabs_js),
    FILE("model/words.js", model_words_js),
    FILE("vendor/qrcode.js", vendor_qrcode_js),
    FILE("views/access.js", views_access_js),
    FILE("views/activity.js", views_activity_js),
    FILE("views/add.js", views_add_js),
    FILE("views/call.js", views_call_js),
    FILE("views/device.js", views_device_js),
    FILE("views/devices.js", views_devices_js),
    FILE("views/diagnosis.js", views_diagnosis_js),
    FILE("views/files.js", views_files_js),
    FILE("views/history.js", views_history_js),
    FILE("views/open.js", views_open_js),
    FILE("views/requests.js", views_requests_js),
};

CConsoleFile cconsole_file(size_t index) {
    return index < sizeof files / sizeof *files ? files[index] : (CConsoleFile){0, 0, 0};
}
