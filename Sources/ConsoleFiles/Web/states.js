// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

// States in words: each code of the API has its word, its tone, and no other place.

import { duration, has, list, t, when } from "./text.js";

/** What a device is, in a word. */
export const kindWord = ({ kind }) => has(`kind.${kind}`) ? t(`kind.${kind}`) : kind ?? "";

/** The name of a device with what tells it from others of this name. */
export const fullTitle = (device) => t("device.named",
    { name: device.name || t("device.unnamed"), facts: list([kindWord(device), device.id.slice(0, 8)].filter(Boolean)) });

/** The name of a device; if another one is called so, with what tells them apart. */
export const title = (device) => device.hasNamesake ? fullTitle(device) : device.name || t("device.unnamed");

/** The state of a device or endpoint. */
export function presence({ status, reason, since, wakeable, expectedWithin }) {
    const at = { time: since ? when(since) : "" };
    const lasting = (key) => t(since ? `${key}.since` : key, at);
    switch (status) {
    case "available":
        if (reason === "contested") return { word: t("presence.contested"), tone: "warn" };
        return { word: t(reason === "nearby" ? "presence.nearby" : "presence.available"), tone: "good" };
    case "discoveringAvailability":
        return reason === "nearby" ? { word: t("presence.found"), tone: "good" } : { word: t("presence.waking"), tone: "busy" };
    case "unavailable":
        if (reason === "waking") return { word: t("presence.waking"), tone: "busy" };
        if (reason === "signedOut") return { word: t("presence.signedOut") };
        if (reason === "neverSeen") return { word: t("presence.neverSeen") };
        if (wakeable) return { word: t("presence.wakeable"), tone: "asleep" };
        if (reason === "suspended") {
            const word = expectedWithin ? t("presence.polling", { interval: duration(expectedWithin) }) : t("presence.suspended");
            return { word, tone: "asleep" };
        }
        return { word: lasting(reason === "shutdown" ? "presence.shutdown" : "presence.lost") };
    default:
        return { word: t(has(`presence.${reason}`) ? `presence.${reason}` : "presence.unknown"), tone: "warn" };
    }
}

/** Devices as choices. Those that are not online say so; the first that is online is chosen. */
export function choices(devices, chosen) {
    const options = devices.map((each) => [each.id, each.status === "available" ? each.title : `${each.title} (${presence(each).word})`]);
    const first = devices.find((each) => each.id === chosen) ?? devices.find((each) => each.status === "available") ?? devices[0];
    return { options, value: first.id };
}

const BUSY = new Set(["waking", "delivered"]);
/** It may last for days: nothing turns meanwhile. */
const WAITING = new Set(["stored", "accepted", "pending"]);
const ENDED = new Set(["expired", "cancelled"]);

/** The state of a command. */
export function progress(command) {
    const name = command.deviceName ?? t("device.unnamed");
    const code = has(`command.${command.status}`) ? command.status : command.ended ? "failed" : "pending";
    const word = t(`command.${code}`, { name, reason: command.message ?? command.status });
    if (command.status === "succeeded") return { word, tone: "good" };
    if (WAITING.has(command.status)) return { word, tone: "waiting" };
    if (BUSY.has(command.status)) return { word, tone: "busy" };
    return { word, tone: ENDED.has(command.status) ? "" : command.status === "indeterminate" ? "warn" : "bad" };
}

/** Who attests the outcome of a command. */
export function attested({ by, deviceName, time }) {
    if (by !== "target") return t("attested.relay");
    return t(time ? "attested.target" : "attested.target.untimed",
        { name: deviceName ?? t("device.unnamed"), time: time ? when(time) : "" });
}

/** How far a device is trusted, as far as that needs a word. */
export function trust(device) {
    if (device.revoked) return { word: t("trust.revoked"), tone: "bad" };
    if (device.limited) return { word: t("trust.limited") };
    if (device.new) return { word: t("trust.new"), tone: "warn" };
    if (device.unverified) return { word: t("trust.unverified"), tone: "warn" };
    // Nobody is called verified for lack of a word to the contrary.
    return device.unverified === false && !device.local ? { word: t("trust.verified") } : undefined;
}

/** The outcome of a check of the diagnosis. */
export const check = (status) => ({
    word: t(`check.${status}`),
    tone: { ok: "good", warning: "warn", failed: "bad" }[status] ?? "",
});
