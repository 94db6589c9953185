// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors
//
// Shows the times of a page of the issuer in the reader's zone and language. Without this script they are in UTC.
"use strict";
for (const element of document.querySelectorAll("time[datetime]")) {
    const time = new Date(element.dateTime);
    if (Number.isNaN(time.getTime())) continue;
    const utc = element.textContent;
    element.textContent = time.toLocaleString(document.documentElement.lang, { dateStyle: "medium", timeStyle: "short" });
    element.title = utc;
}
