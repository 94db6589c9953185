// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

// What other devices ask for, and what a person answers.

import { button, field, h, icon, keepFocus, say, select, tag } from "../dom.js";
import { attempt, Guard } from "../question.js";
import { inTurn } from "../router.js";
import { trust } from "../states.js";
import { bytes, t } from "../text.js";

export async function show({ model, body, on, signal }) {
    const all = h("div");
    body.replaceChildren(h("p", { class: "quiet" }, t("requests.text")), all);
    await drawAsks(all, { model, on, signal });
}

/**
 * Shows the open asks, and keeps them up to date.
 * @param isQuiet Whether nothing is shown if nobody asks, and no new device, which the list of devices shows.
 * @returns A function that is called when they have moved.
 */
export async function drawAsks(root, { model, on, signal }, isQuiet = false) {
    /** The card and the guard of each ask: they stay as they are while others come and go. */
    const shown = new Map();
    const read = inTurn(async () => {
        const { asks: all } = await model.asks().catch((error) => {
            if (isQuiet) return { asks: [] };
            throw error;
        });
        const asks = all.filter((ask) => !isQuiet || ask.kind !== "newDevice");
        // They have the names of all devices.
        if (asks.some((ask) => ask.device && !model.nameOf(ask.device.endpoint))) await model.devices().catch(() => {});
        if (signal.aborted) return;
        for (const [id, { card: old, left }] of shown) {
            if (asks.some((ask) => ask.id === id)) continue;
            const hadFocus = old.contains(document.activeElement);
            left.abort();
            old.remove();
            shown.delete(id);
            moved();
            if (hadFocus) keepFocus(root);
        }
        for (const ask of asks) {
            if (shown.has(ask.id)) continue;
            const made = drawAsk(ask);
            shown.set(ask.id, made);
            // What ends by itself stands before what waits: new devices have no end.
            const later = ask.kind !== "newDevice" && root.querySelector(":scope > .newDevice");
            root.insertBefore(made.card, later || null);
        }
        if (isQuiet) root.hidden = !shown.size;
        root.querySelector(".nothing")?.remove();
        if (!shown.size && !isQuiet) root.append(h("p", { class: "card quiet nothing" }, t("requests.none")));
    });
    on(["ask", "reset"], read);
    every(1_000, tick, signal);
    await read();
    return { moved };

    /** The cards below one that went away have moved. */
    function moved() { for (const { guard } of shown.values()) guard.restart(); }

    function tick() {
        if (signal.aborted) return;
        for (const { tick } of shown.values()) tick();
    }

    function drawAsk(ask) {
        const left = new AbortController();
        signal.addEventListener("abort", () => left.abort(), { once: true });
        const guard = new Guard(left.signal);
        const name = model.nameOf(ask.device?.endpoint) ?? ask.device?.name ?? t("device.unnamed");
        const clock = h("span", { class: "meta", role: "timer" });
        const level = ask.device && trust(ask.device);
        const what = ask.kind === "transfer"
            ? [t("ask.transfer.files", { count: ask.count ?? 1 }), ask.name,
                ask.size !== undefined && bytes(ask.size)].filter(Boolean).join(", ")
            : ask.uri ?? ask.name;
        const handlers = ask.handlers ?? [];
        // The first one is the system's default.
        const choice = handlers.length > 1 && select(handlers.map((each) => [each.id, each.name]), {});
        const answer = (value) => guard.guarding(() => attempt(box.firstChild, async () => {
            await model.answer(ask.id, { answer: value, ...choice && value !== "no" && { handler: choice.value } });
            say(t(`ask.${value}.done`, { name }));
            await read();
        }));
        const canAlways = ask.canAlways !== false && level?.tone !== "warn";
        const always = ask.kind !== "newDevice" && canAlways && h("p", { class: "hint" }, t(ask.kind === "transfer" ? "ask.always.files"
            : "ask.always.links", { name, scheme: ask.uri?.split(":")[0] }));
        const buttons = ask.kind === "newDevice"
            ? h("a", { class: "button primary", href: `#/device/${encodeURIComponent(ask.device.id)}` }, t("device.look"))
            : [button(t("ask.once"), answer("once"), { label: t("ask.once.what", { what, name }) }),
                canAlways && button(t("ask.always"), answer("always"),
                    { label: t("ask.always.what", { name }) }),
                button(t("ask.no"), answer("no"), { label: t("ask.no.what", { what, name }) })];
        const box = h("section", { class: `card ask ${ask.kind}` },
            h("h2", { tabindex: "-1" }, icon(ask.kind === "transfer" ? "transfer" : ask.kind === "newDevice" ? "device" : "link"),
                t(`ask.${ask.kind}`, { name })),
            h("p", {}, level && tag(level.word, level.tone), " ", clock),
            what && h("p", { class: "asked" }, what),
            choice ? field(t("ask.handlers"), choice) : handlers.length > 0 && h("p", {}, t("ask.handler", { name: handlers[0].name })),
            h("div", { class: "buttons" }, buttons), always);
        const tick = () => {
            const seconds = Math.ceil((Date.parse(ask.expires) - Date.now()) / 1_000);
            clock.textContent = Number.isNaN(seconds) ? "" : seconds > 0 ? t("ask.left", { count: seconds }) : t("ask.over");
            if (seconds < -1) read().catch(() => {});
        };
        tick();
        return { card: box, guard, left, tick };
    }
}

/** Calls back at an interval until the signal. */
function every(interval, action, signal) {
    const timer = setInterval(action, interval);
    signal.addEventListener("abort", () => clearInterval(timer), { once: true });
}
